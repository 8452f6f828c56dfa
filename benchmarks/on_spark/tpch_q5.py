"""Measure continuous TPC-H Q5 by hash and by Mixed; write raw records and the table.

Both strategies run in turn on the same files, as streams; which one begins changes with the round.
Their results must be those of Spark SQL for each window. A short stream warms both up before. After
three rounds, no other begins that would take too long.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

import typer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.records import Report, Row, grouped, markdown, range_of, ratios, times
from benchmarks.turns import rounds, spark_and_folder
from skewless.apps.computation import ledger_beside
from skewless.apps.tpch_q5 import TpchQ5
from skewless.apps.tpch_tables import TableFiles, TpchStream, find_tables
from skewless.cli.option import option
from skewless.spark.balance.balance import read_balance
from skewless.spark.ledger import Ledger
from skewless.spark.ledger.names import WORKERS

#: What is compared; the others are measured against the first one.
STRATEGIES = ("hash", "mixed")
N_WORKERS = 8
#: The fewest rounds: a range needs some.
LEAST_ROUNDS = 3
#: Windows of five minutes, every minute, as `TpchQ5` has them unless told otherwise.
LENGTH, SLIDE = "5 minutes", "1 minute"


def by_spark_sql(spark: SparkSession, files: TableFiles) -> list[tuple[Any, ...]]:
    """Compute the results with the windows and joins of plain Spark."""
    tables: dict[str, Any] = {**files.read(spark)}
    orders = tables.pop("orders").withColumn("window", F.window("o_orderdate", LENGTH, SLIDE))
    items = tables.pop("lineitem").withColumn("item_window", F.window("l_shipdate", LENGTH, SLIDE))
    query = """
        SELECT window, n_name AS nation, sum(l_extendedprice * (1 - l_discount)) AS revenue
        FROM {orders}, {items}, {customer}, {supplier}, {nation}, {region}
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
          AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey
          AND n_regionkey = r_regionkey AND r_name = 'ASIA' AND window = item_window
        GROUP BY window, n_name"""
    return in_order(spark.sql(query, orders=orders, items=items, **tables).collect())


def in_order(rows: list[Any]) -> list[tuple[Any, ...]]:
    return sorted((row["window"], row["nation"], row["revenue"]) for row in rows)


def run(
    spark: SparkSession, files: TableFiles, strategy: str, scratch: Path
) -> tuple[list[Row], list[tuple[Any, ...]]]:
    """Run the query as a stream; return a row of measurements per micro-batch, and the results."""
    query = TpchQ5(window=LENGTH, slide=SLIDE, strategy=strategy, workers=N_WORKERS, seed=0)
    output, checkpoint = str(scratch / "results"), str(scratch / "checkpoint")
    ended = query.stream(files.read_stream(spark, 2), output, checkpoint)
    ledger = Ledger(ledger_beside(checkpoint))
    batches = []
    for event in ended.recentProgress:
        number = event["batchId"]
        balance = read_balance(ledger, number, N_WORKERS)
        assert balance is not None  # the stream has ended, so all reports are there
        reports = dict(ledger.reports(WORKERS, number))
        batches.append(
            {
                "batch": number,
                "records": int(event["numInputRows"]),
                "seconds": event["durationMs"]["triggerExecution"] / 1000,
                "imbalance": balance.imbalance,
                "moved": sum(int(report.about["moved"]) for report in reports.values()),
            }
        )
    return batches, in_order(spark.read.parquet(output).collect())


def measure(spark: SparkSession, folder: Path, n_rounds: int, minutes: float) -> Iterator[Row]:
    """Run both strategies in each round; the one that begins changes with the round."""
    inputs = {name: find_tables(str(folder / name)) for name in ("warming", "measured")}
    truth = {name: by_spark_sql(spark, files) for name, files in inputs.items()}
    for number in rounds(n_rounds, minutes, LEAST_ROUNDS):
        name = "measured" if number else "warming"
        for strategy in STRATEGIES if number % 2 else STRATEGIES[::-1]:
            # Another one each time: Spark may still write into one that was deleted.
            scratch = folder / f"{number}-{strategy}"
            batches, results = run(spark, inputs[name], strategy, scratch)
            shutil.rmtree(scratch)
            if results != truth[name]:
                raise RuntimeError(f"{strategy}: the results differ from Spark SQL's")
            about = {"strategy": strategy, "round": number, "workers": N_WORKERS}
            if number:
                yield about | {"rows": len(results), "batches": batches}


def table(records: Sequence[Row]) -> str:
    """Return one line per strategy; ratios are within one round, and the median over rounds.

    The range is that of the rounds: the lowest and the highest of their ratios.
    """
    rows = []
    runs = grouped(records, "strategy")
    for strategy, mine in runs.items():
        # The first micro-batch is placed by hash in any case: nothing is known yet.
        later = [one for r in mine for one in r["batches"][1:]]
        fullest = [1 + one["imbalance"] for one in later]
        found = ratios(mine, runs[STRATEGIES[0]], _speed, "round")
        rows.append(
            [
                *(f"`{strategy}`", f"{mean(fullest):.2f}", f"{max(fullest):.2f}"),
                f"{mean(one['moved'] for one in later):.0f}",
                f"{median(map(_speed, mine)):,.0f}",
                *(times(found), range_of(found), len(mine), f"{mine[0]['rows']:,}"),
            ]
        )
    balance = "fullest worker / mean | in the worst batch | keys moved per batch"
    speed = "records/s | to hash | lowest to highest"
    return markdown(f"strategy | {balance} | {speed} | rounds | rows, equal to Spark SQL", rows)


def _speed(record: Row) -> float:
    """Return records per second of all micro-batches but the first, which warms up."""
    batches = record["batches"][1:]
    return float(sum(one["records"] for one in batches) / sum(one["seconds"] for one in batches))


REPORT = Report("on_spark/tpch_q5.jsonl", {("docs/applications.md", "tpch q5"): table})


def main(
    items: int = option(200_000, "Line items."),
    n_rounds: int = option(4, "How often each strategy is measured.", "--rounds", min=LEAST_ROUNDS),
    minutes: float = option(5.0, "After three rounds, none begins that would end later."),
) -> None:
    """Measure both strategies."""
    settings = {"spark.sql.shuffle.partitions": "4", "spark.sql.session.timeZone": "UTC"}
    with spark_and_folder("TPC-H Q5", settings=settings) as (spark, folder):
        TpchStream(n_items=items).write(folder / "measured")
        few = max(items // 20, TpchStream.fewest(n_files=2))
        TpchStream(n_items=few).write(folder / "warming")
        found = measure(spark, folder, n_rounds, minutes)
        # In the order of the table, whichever began.
        REPORT.write(sorted(found, key=lambda r: STRATEGIES.index(r["strategy"])))


if __name__ == "__main__":
    typer.run(main)
