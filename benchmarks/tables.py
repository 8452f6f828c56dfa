"""Write every generated table anew from the raw records; measures nothing."""

import typer

from benchmarks import grouping_cost, overview
from benchmarks.aggregation import whole_keys
from benchmarks.frontier.__main__ import write_documents
from benchmarks.on_spark import (
    aggregate_speed,
    break_even,
    held_keys,
    keyed_state_mixed,
    learning_together,
    public,
    skewed_joins,
    skewed_writes,
    spark_alternatives,
    spark_speed,
    spark_versions,
    stateful_operators,
    tpch_q5,
)
from benchmarks.records import read_records
from experiments.reproduction import document as reproduction

MODULES = (
    *(grouping_cost, overview, aggregate_speed, break_even, held_keys),
    *(keyed_state_mixed, learning_together, public),
    *(skewed_joins, skewed_writes, spark_alternatives, spark_versions, stateful_operators),
    *(tpch_q5, whole_keys),
)
REPORTS = (*(module.REPORT for module in MODULES), spark_speed.SPEEDS, spark_speed.FIRST_ROUTES)


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
