"""Measure plans of keys on Spark: their balance, and their time against a plain shuffle.

Every table is routed by a plan of its own keys and counted again. Times are ratios inside one run:
the jobs take turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.records import BENCHMARKS, Report, Row, grouped, markdown, range_of, ratios, times
from benchmarks.turns import in_turns, spark_and_folder, throw_away, timed
from skewless.metrics import imbalance, replication_limit
from skewless.spark import plan_keys, route

WORKERS = (16, 32, 64, 128)
SHUFFLED = 32  # partitions of the comparison of times
COLUMNS = (1, 10, 100)
SYNTHETIC = {f"Zipf {z}": z for z in (0.8, 1.1, 1.4, 2.0)}
N_KEYS = 1_000_000
HASH, PLAN, PLANNED, ONLINE = "hash", "plan", "plan and route", "cascade-ahead"


def zipf(spark: SparkSession, z: float, n_rows: int, n_columns: int = 1) -> DataFrame:
    """Return rows whose keys have about a Zipf distribution, drawn in the JVM, with columns."""
    u = F.rand(1)
    if z == 1.0:
        rank = F.pow(F.lit(float(N_KEYS)), u)
    else:  # the inverse of the distribution function of the continuous law
        rank = F.pow(u * (F.lit(float(N_KEYS)) ** (1 - z) - 1) + 1, 1 / (1 - z))
    more = [(F.col("id") * (place + 1)).alias(f"c{place}") for place in range(n_columns)]
    key = F.concat(F.lit("key-"), F.floor(rank).cast("string")).alias("key")
    return spark.range(0, n_rows, 1, 8).select(key, *more)


def balance(spark: SparkSession, tables: dict[str, DataFrame]) -> Iterator[Row]:
    """Yield what plans do with these tables, counted after the shuffle."""
    for name, df in tables.items():
        for workers in WORKERS:
            took, plan = timed(lambda df=df, n=workers: plan_keys(df, "key", n, seed=1))
            pairs = route(df, "key", plan=plan).groupBy("worker", "key").count()
            loads = [0] * workers
            n_pairs = 0
            for row in pairs.groupBy("worker").agg(F.sum("count"), F.count("*")).collect():
                loads[row[0]] = row[1]
                n_pairs += row[2]
            yield {
                "comparison": "balance",
                "table": name,
                "workers": workers,
                "records": sum(loads),
                "keys": plan.n_keys,
                "split": len(plan.split),
                "listed": len(plan.table),
                "replication": n_pairs / plan.n_keys,
                "imbalance": imbalance(loads),
                "tolerance": plan.made.tolerance,
                "seconds": took,
            }


def speed(spark: SparkSession, folder: Path, rows: int, turns: int) -> Iterator[Row]:
    """Yield the times of a plain shuffle, and of plan and routing together."""
    for n_columns in COLUMNS:
        path = str(folder / f"columns-{n_columns}")
        zipf(spark, 1.1, rows, n_columns).write.parquet(path)
        df = spark.read.parquet(path)
        names = (HASH, PLANNED, ONLINE)
        for turn, name in in_turns(names, turns, f"{n_columns} columns", first=-1):
            about = {"comparison": "speed", "columns": n_columns, "records": rows, "turn": turn}
            if name == HASH:
                took, _ = timed(throw_away, df.repartition(SHUFFLED, "key"))
            elif name == ONLINE:
                online = route(df, "key", workers=SHUFFLED, strategy=ONLINE, seed=1)
                took, _ = timed(throw_away, online)
            else:
                counted, routed = timed(lambda df=df: route(df, "key", workers=SHUFFLED, seed=1))
                took, _ = timed(throw_away, routed)
                if turn >= 0:
                    yield about | {"job": PLAN, "seconds": counted}
                took += counted
            if turn >= 0:
                yield about | {"job": name, "seconds": took}


def balance_table(records: Sequence[Row]) -> str:
    """Return one line per table and number of workers."""
    rows = []
    for record in records:
        if record["comparison"] != "balance":
            continue
        limit = replication_limit(record["workers"], record["keys"])
        rows.append(
            [
                *(record["table"], record["workers"], f"{record['records']:,}"),
                *(f"{record['keys']:,}", record["split"], record["listed"]),
                *(f"{record['replication']:.4f}", f"{limit:.4f}", f"{record['imbalance']:.4f}"),
            ]
        )
    heads = "table | workers | records | keys | split keys | keys in the table | replicas per key"
    return markdown(f"{heads} | limit | imbalance", rows)


def speed_table(records: Sequence[Row]) -> str:
    """Return one line per number of columns; medians of ratios to hashing in the same turn."""
    measured = [record for record in records if record["comparison"] == "speed"]
    rows = []
    for n_columns, mine in grouped(measured, "columns").items():
        by_job = grouped(mine, "job")
        found = {job: ratios(by_job[job], by_job[HASH]) for job in (PLAN, PLANNED, ONLINE)}
        cells = [times(found[job]) for job in (PLAN, PLANNED)]
        cells += [range_of(found[PLANNED]), times(found[ONLINE])]
        rows.append([n_columns, f"{mine[0]['records']:,}", *cells])
    heads = "columns | rows | plan / hash | plan and route / hash | lowest – highest"
    return markdown(f"{heads} | cascade-ahead / hash", rows)


REPORT = Report(
    "on_spark/planned.jsonl",
    {
        (BENCHMARKS, "planned balance"): balance_table,
        (BENCHMARKS, "planned speed"): speed_table,
    },
)


def main(
    rows: Annotated[int, typer.Option(help="Rows of the comparison of times.")] = 10_000_000,
    records: Annotated[int, typer.Option(help="Records of a synthetic table.")] = 2_000_000,
    turns: Annotated[int, typer.Option(help="How often each job is measured.")] = 3,
    data: Annotated[Path | None, typer.Option(help="A folder of Parquet files with `key`.")] = None,
) -> None:
    """Measure the balance of plans, and their time."""
    with spark_and_folder("planned") as (spark, folder):
        tables: dict[str, DataFrame] = {}
        for name, z in SYNTHETIC.items():
            path = str(folder / name.replace(" ", "-"))
            zipf(spark, z, records).write.parquet(path)
            tables[name] = spark.read.parquet(path)
        for file in sorted(data.glob("*.parquet")) if data else ():
            tables[file.stem] = spark.read.parquet(str(file))
        REPORT.write([*balance(spark, tables), *speed(spark, folder, rows, turns)])


if __name__ == "__main__":
    typer.run(main)
