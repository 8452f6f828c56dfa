"""Write every generated table anew from the raw records; measures nothing."""

import typer

from benchmarks import (
    first_minutes,
    generic_cpu,
    grouping_cost,
    growth,
    held_keys,
    overview,
    slow_slots,
    spark_versions,
)
from benchmarks.frontier.__main__ import write_documents
from benchmarks.on_spark import (
    first_route,
    keyed_state_mixed,
    learning_together,
    public,
    replay_validation,
    small_batches,
    stateful_operators,
    tpch_q5,
    ways_tables,
    whole_keys,
)
from benchmarks.records import read_records
from experiments.reproduction import document as reproduction

MODULES = (
    *(first_minutes, generic_cpu, grouping_cost, growth, overview, first_route, held_keys),
    *(keyed_state_mixed, learning_together, public, replay_validation),
    *(slow_slots, small_batches, spark_versions, stateful_operators),
    *(tpch_q5, ways_tables, whole_keys),
)
REPORTS = tuple(module.REPORT for module in MODULES)


def write_reproduction_tables() -> None:
    if reproduction.RECORDS.exists():
        reproduction.write_document(read_records(reproduction.RECORDS))


def write_all() -> None:
    """Write all generated tables of the documents anew, from the raw records."""
    for report in REPORTS:
        report.write_tables()
    write_reproduction_tables()
    write_documents()
    pages = {document for report in REPORTS for document, _ in report.tables}
    print(f"tables written: {', '.join(sorted(pages))}, docs/results/frontier.md, reproduction.md")


if __name__ == "__main__":
    typer.run(write_all)
