"""Measure joins whose keys are skewed on both sides; write the raw records and the table.

Spark's own join and ours take turns on the same tables. Both results are counted by task, and
compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import pyarrow as pa
import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.records import Report, Row, grouped, markdown, ratios, times
from benchmarks.streams import write_files
from benchmarks.turns import in_turns, spark_and_folder, timed
from skewless.spark import join
from skewless.workloads import Zipf

OURS, SPARKS = "join", "Spark's join"
N_KEYS = 10_000
Way = Callable[[DataFrame, DataFrame, int], DataFrame]
WAYS: dict[str, Way] = {
    SPARKS: lambda left, right, n: left.join(right, "k"),
    OURS: lambda left, right, n: join(left, right, "k", workers=n, seed=7),
}


def make_side(n_rows: int, z: float, seed: int, name: str) -> Iterator[pa.Table]:
    """Yield rows of skewed keys in four tables."""
    keys = np.concatenate(list(Zipf(z=z, n_keys=N_KEYS, n_records=n_rows).ranks(seed)))
    for number, part in enumerate(np.array_split(keys, 4)):
        yield pa.table({"k": part, name: np.arange(part.size) * 4 + number})


def measure(spark: SparkSession, folder: Path, z: float, workers: int, turns: int) -> Iterator[Row]:
    spark.conf.set("spark.sql.shuffle.partitions", str(workers))
    # The tables stand for larger ones, which Spark neither broadcasts nor puts into fewer tasks.
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    left, right = (spark.read.parquet(str(folder / f"{side}-{z}")) for side in ("left", "right"))
    expected = None
    for turn, name in in_turns(WAYS, turns, "turns", first=-1):
        took, counts = timed(lambda n=name: pairs_of_tasks(WAYS[n](left, right, workers)))
        total = (sum(row[1] for row in counts), sum(row[2] for row in counts))
        expected = expected or total
        if total != expected:
            raise RuntimeError(f"{name}: {total} pairs and their sum, not {expected}")
        if turn >= 0:
            largest = max(row[1] for row in counts)
            facts = {"z": z, "workers": workers, "way": name, "turn": turn, "seconds": took}
            yield facts | {"pairs": total[0], "largest_task": largest}


def pairs_of_tasks(joined: DataFrame) -> list[tuple[int, int, int]]:
    """Return the task, its pairs, and a sum that other pairs would not have."""
    task = F.spark_partition_id().alias("task")
    sums = joined.groupBy(task).agg(F.count("*"), F.sum((F.col("v") * 31 + F.col("w")) % 1009))
    return [tuple(row) for row in sums.collect()]


def table(records: Sequence[Row]) -> str:
    """Return one line for each exponent and number of workers; times are ratios of one turn."""
    rows = []
    for z, of_z in grouped(records, "z").items():
        for workers, mine in grouped(of_z, "workers").items():
            ways = grouped(mine, "way")
            even = [
                f"{median(r['largest_task'] * workers / r['pairs'] for r in ways[way]):.2f}"
                for way in (SPARKS, OURS)
            ]
            took = times(ratios(ways[OURS], ways[SPARKS]))
            rows.append([f"Zipf {z}", workers, f"{mine[0]['pairs']:,}", *even, took])
    largest = "largest task / mean: Spark's join | join"
    return markdown(f"keys | tasks | pairs | {largest} | time / Spark's, on two slots", rows)


REPORT = Report(
    "on_spark/skewed_joins.jsonl", {("docs/guides/skewed-joins.md", "skewed joins"): table}
)


def main(
    rows: Annotated[int, typer.Option(help="Rows of the left side; the right one has twice.")] = (
        100_000
    ),
    turns: Annotated[int, typer.Option(help="How often each way is measured.")] = 3,
) -> None:
    """Measure all exponents and numbers of tasks."""
    with spark_and_folder("skewed joins") as (spark, folder):

        def all_cells() -> Iterator[Row]:
            for z in (0.0, 0.6, 0.9, 1.2):
                write_files(folder / f"left-{z}", make_side(rows, z, 1, "v"))
                write_files(folder / f"right-{z}", make_side(2 * rows, z, 2, "w"))
                for workers in (16, 64):
                    yield from measure(spark, folder, z, workers, turns)

        REPORT.write(all_cells())


if __name__ == "__main__":
    typer.run(main)
