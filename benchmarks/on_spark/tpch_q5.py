"""Measure continuous TPC-H Q5 by hash and by Mixed; write raw records and the table.

Both strategies run in turn on the same files, as streams; which one begins changes with the round.
Their results must be those of Spark SQL for each window. A short stream warms both up before. After
three rounds, no other begins that would take too long.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.progress import Progress

from benchmarks.tables import TPCH_Q5, write_tpch_q5
from skewless.apps.records.outputs import ledger_beside
from skewless.apps.tpch.generating import TpchStream
from skewless.apps.tpch.tables import TableFiles, find_tables
from skewless.apps.tpch_q5 import TpchQ5
from skewless.experiments.on_spark.tpch_q5 import STRATEGIES
from skewless.experiments.tables import Row, write_records
from skewless.spark import session
from skewless.spark.balance.balance import read_balance
from skewless.spark.ledger import Ledger

N_WORKERS = 8
#: The fewest rounds: a range needs some.
LEAST_ROUNDS = 3
#: Windows of five minutes, every minute, as `TpchQ5` has them unless told otherwise.
LENGTH, SLIDE = "5 minutes", "1 minute"


def by_spark_sql(spark: SparkSession, files: TableFiles) -> list[tuple[Any, ...]]:
    """Return what plain Spark says, with its own windows and joins."""
    tables = files.read(spark)
    orders = tables.orders.withColumn("window", F.window("o_orderdate", LENGTH, SLIDE))
    items = tables.lineitem.withColumn("item_window", F.window("l_shipdate", LENGTH, SLIDE))
    query = """
        SELECT window, n_name AS nation, sum(l_extendedprice * (1 - l_discount)) AS revenue
        FROM {orders}, {items}, {customer}, {supplier}, {nation}, {region}
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
          AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey
          AND n_regionkey = r_regionkey AND r_name = 'ASIA' AND window = item_window
        GROUP BY window, n_name"""
    known = {name: getattr(tables, name) for name in ("customer", "supplier", "nation", "region")}
    return in_order(spark.sql(query, orders=orders, items=items, **known).collect())


def in_order(rows: list[Any]) -> list[tuple[Any, ...]]:
    return sorted((row["window"], row["nation"], row["revenue"]) for row in rows)


def run(
    spark: SparkSession, files: TableFiles, strategy: str, scratch: Path
) -> tuple[list[Row], list[tuple[Any, ...]]]:
    """Return what each micro-batch did, and the results."""
    query = TpchQ5(window=LENGTH, slide=SLIDE, strategy=strategy, workers=N_WORKERS, seed=0)
    output, checkpoint = str(scratch / "results"), str(scratch / "checkpoint")
    ended = query.stream(files.read_stream(spark, 2), output, checkpoint)
    ledger = Ledger(ledger_beside(checkpoint))
    batches = []
    for event in ended.recentProgress:
        number = event["batchId"]
        balance = read_balance(ledger, number, N_WORKERS)
        reports = ledger.read_workers(number)
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


def one_round(
    spark: SparkSession, files: TableFiles, number: int, truth: list[tuple[Any, ...]], folder: Path
) -> Iterator[Row]:
    """Run both strategies; the one that begins changes with the round."""
    for strategy in STRATEGIES if number % 2 else STRATEGIES[::-1]:
        # Another one each time: Spark may still write into one that was deleted.
        scratch = folder / f"{number}-{strategy}"
        batches, results = run(spark, files, strategy, scratch)
        shutil.rmtree(scratch)
        if results != truth:
            raise RuntimeError(f"{strategy}: the results differ from Spark SQL's")
        yield {
            "strategy": strategy,
            "round": number,
            "workers": N_WORKERS,
            "rows": len(results),
            "batches": batches,
        }


def measure(spark: SparkSession, folder: Path, rounds: int, minutes: float) -> Iterator[Row]:
    """Yield what each strategy did in each round, after one that does not count."""
    warming, measured = (find_tables(str(folder / name)) for name in ("warming", "measured"))
    with Progress() as progress:
        task = progress.add_task("rounds", total=rounds + 1)
        for _ in one_round(spark, warming, 0, by_spark_sql(spark, warming), folder):
            pass
        progress.advance(task)
        truth = by_spark_sql(spark, measured)
        begin, longest = time.perf_counter(), 0.0
        for number in range(1, rounds + 1):
            now = time.perf_counter()
            if number > LEAST_ROUNDS and now - begin + longest > minutes * 60:
                break
            yield from one_round(spark, measured, number, truth, folder)
            longest = max(longest, time.perf_counter() - now)
            progress.advance(task)


def main(
    items: Annotated[int, typer.Option(help="Line items.")] = 200_000,
    rounds: Annotated[
        int, typer.Option(min=LEAST_ROUNDS, help="How often each strategy is measured.")
    ] = 4,
    minutes: Annotated[
        float, typer.Option(help="After three rounds, none begins that would end later.")
    ] = 5.0,
) -> None:
    """Measure both strategies."""
    settings = {"spark.sql.shuffle.partitions": "4", "spark.sql.session.timeZone": "UTC"}
    spark = session("TPC-H Q5", master="local[2]", settings=settings)
    with tempfile.TemporaryDirectory() as folder:
        TpchStream(n_items=items).write(Path(folder) / "measured")
        few = max(items // 20, TpchStream.fewest(n_files=2))
        TpchStream(n_items=few).write(Path(folder) / "warming")
        # All at once: a run that fails leaves the records of the last one.
        found = list(measure(spark, Path(folder), rounds, minutes))
        # In the order of the table, whichever began.
        write_records(TPCH_Q5, sorted(found, key=lambda r: STRATEGIES.index(r["strategy"])))
    spark.stop()
    print(f"raw records: {TPCH_Q5}")
    write_tpch_q5()


if __name__ == "__main__":
    typer.run(main)
