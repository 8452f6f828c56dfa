"""Write every generated table anew from the raw records; measures nothing."""

from pathlib import Path

import typer

from benchmarks.frontier import RECORDS, write_documents
from experiments.reproduction import document as reproduction
from skewless.experiments import (
    giants,
    grouping_cost,
    learning_together,
    overview,
    simulator_speed,
)
from skewless.experiments.on_spark import (
    aggregate_speed,
    alternatives,
    break_even,
    held_keys,
    keyed_state,
    public,
    skewed_writes,
    spark_speed,
    spark_versions,
    stateful_operators,
    tpch_q5,
)
from skewless.experiments.tables import read_records, write_table

PROJECT = Path(__file__).resolve().parent.parent
RESULTS = PROJECT / "benchmarks" / "results"
ON_SPARK = RESULTS / "on_spark"
GROUPING_COST = RESULTS / "grouping_cost.jsonl"
OVERVIEW = RESULTS / "overview.jsonl"
SPARK_SPEED = ON_SPARK / "spark_speed.jsonl"
FIRST_ROUTE = ON_SPARK / "first_route.jsonl"
ALTERNATIVES = ON_SPARK / "spark_alternatives.jsonl"
BREAK_EVEN = ON_SPARK / "break_even.jsonl"
GIANTS = RESULTS / "giants.jsonl"
MIXED = PROJECT / "docs" / "strategies" / "mixed.md"
AGGREGATE_SPEED = ON_SPARK / "aggregate_speed.jsonl"
LEARNING_TOGETHER = ON_SPARK / "learning_together.jsonl"
SKEWED_WRITES = ON_SPARK / "skewed_writes.jsonl"
KEYED_STATE = ON_SPARK / "keyed_state.jsonl"
HELD_KEYS = ON_SPARK / "held_keys.jsonl"
STATEFUL_OPERATORS = ON_SPARK / "stateful_operators.jsonl"
PUBLIC = ON_SPARK / "public.jsonl"
SPARK_VERSIONS = ON_SPARK / "spark_versions.jsonl"
SIMULATOR_SPEED = RESULTS / "simulator_speed.jsonl"
TPCH_Q5 = ON_SPARK / "tpch_q5.jsonl"
PAGES = PROJECT / "docs" / "results"
BENCHMARKS = PAGES / "benchmarks.md"


def write_all() -> None:
    """Write all generated tables of the documents anew, from the raw records."""
    if GROUPING_COST.exists():
        records = read_records(GROUPING_COST)
        for z in grouping_cost.EXPONENTS:
            write_table(BENCHMARKS, f"grouping cost z={z}", grouping_cost.table(records, z))
        write_table(
            BENCHMARKS, "grouping cost to pkg", grouping_cost.table_to_pkg(records, n_workers=128)
        )
    if OVERVIEW.exists():
        write_table(PROJECT / "README.md", "strategies", overview.table(read_records(OVERVIEW)))
    write_spark_versions()
    write_spark_tables()
    write_alternatives()
    write_break_even()
    write_giants()
    write_learning_together()
    write_skewed_writes()
    write_keyed_state_table()
    write_reproduction_tables()
    write_public()
    write_stateful_operators()
    write_held_keys()
    write_simulator_speed()
    write_tpch_q5()
    if RECORDS.exists():
        write_documents()
    print(
        "tables written: README.md, the pages of docs/results, docs/applications.md, "
        "docs/simulator.md, docs/skewed-writes.md, docs/strategies/mixed.md"
    )


def write_spark_versions() -> None:
    if SPARK_VERSIONS.exists():
        table = spark_versions.table(read_records(SPARK_VERSIONS))
        write_table(PROJECT / "README.md", "spark versions", table)


def write_reproduction_tables() -> None:
    if reproduction.RECORDS.exists():
        reproduction.write_document(read_records(reproduction.RECORDS))


def write_giants() -> None:
    if GIANTS.exists():
        write_table(MIXED, "giants", giants.table(read_records(GIANTS)))


def write_learning_together() -> None:
    if LEARNING_TOGETHER.exists():
        table = learning_together.table(read_records(LEARNING_TOGETHER))
        write_table(BENCHMARKS, "learning together", table)


def write_skewed_writes() -> None:
    if SKEWED_WRITES.exists():
        table = skewed_writes.table(read_records(SKEWED_WRITES))
        write_table(PROJECT / "docs" / "skewed-writes.md", "skewed writes", table)


def write_keyed_state_table() -> None:
    if KEYED_STATE.exists():
        write_table(BENCHMARKS, "keyed state", keyed_state.table(read_records(KEYED_STATE)))


def write_public() -> None:
    if PUBLIC.exists():
        table = public.table(read_records(PUBLIC))
        write_table(PAGES / "public-benchmarks.md", "public workloads", table)


def write_held_keys() -> None:
    if HELD_KEYS.exists():
        write_table(BENCHMARKS, "held keys", held_keys.table(read_records(HELD_KEYS)))


def write_stateful_operators() -> None:
    if STATEFUL_OPERATORS.exists():
        write_table(
            BENCHMARKS,
            "stateful operators",
            stateful_operators.table(read_records(STATEFUL_OPERATORS)),
        )


def write_simulator_speed() -> None:
    if SIMULATOR_SPEED.exists():
        table = simulator_speed.table(read_records(SIMULATOR_SPEED))
        write_table(PROJECT / "docs" / "simulator.md", "simulator speed", table)


def write_tpch_q5() -> None:
    if TPCH_Q5.exists():
        table = tpch_q5.table(read_records(TPCH_Q5))
        write_table(PROJECT / "docs" / "applications.md", "tpch q5", table)


def write_spark_tables() -> None:
    if SPARK_SPEED.exists():
        records = read_records(SPARK_SPEED)
        for comparison in dict.fromkeys(record["comparison"] for record in records):
            write_table(BENCHMARKS, f"spark {comparison}", spark_speed.table(records, comparison))
    if FIRST_ROUTE.exists():
        table = spark_speed.first_route_table(read_records(FIRST_ROUTE))
        write_table(BENCHMARKS, "spark first route", table)
    if AGGREGATE_SPEED.exists():
        table = aggregate_speed.table(read_records(AGGREGATE_SPEED))
        write_table(BENCHMARKS, "spark aggregate", table)


def write_alternatives() -> None:
    if ALTERNATIVES.exists():
        records = read_records(ALTERNATIVES)
        write_table(BENCHMARKS, "alternatives", alternatives.table(records))
        write_table(BENCHMARKS, "alternatives summary", alternatives.summary(records))
        write_table(PROJECT / "README.md", "alternatives", alternatives.by_case(records))
        write_table(PROJECT / "README.md", "alternatives summary", alternatives.summary(records))


def write_break_even() -> None:
    if BREAK_EVEN.exists():
        records = read_records(BREAK_EVEN)
        write_table(BENCHMARKS, "break-even", break_even.table(records))
        few = [r for r in records if r["stream"].startswith("Zipf") and r["slots"] == 32]
        write_table(PROJECT / "README.md", "break-even", break_even.table(few))


if __name__ == "__main__":
    typer.run(write_all)
