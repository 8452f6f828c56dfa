"""Measure partitioned writes of skewed keys; write the raw records and the table.

Every way writes the same records with `partitionBy`, and the ways take turns. What is written is
read again and compared.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.progress import track

from benchmarks.tables import SKEWED_WRITES, write_skewed_writes
from skewless import workloads
from skewless.experiments.on_spark.skewed_writes import OURS
from skewless.experiments.tables import Row, write_records
from skewless.spark import route, session

WORKERS = 16
SALT = 8
Way = Callable[[DataFrame], DataFrame]
WAYS: dict[str, Way] = {
    "repartition(n, key)": lambda df: df.repartition(WORKERS, "tenant"),
    "repartition(n)": lambda df: df.repartition(WORKERS),
    f"salt {SALT}": lambda df: (
        df.withColumn("salt", (F.rand(7) * SALT).cast("int"))
        .repartition(WORKERS, "tenant", "salt")
        .drop("salt")
    ),
    OURS: lambda df: route(df, "tenant", workers=WORKERS, seed=7).drop("worker"),
}


def make_records(folder: Path, n_records: int) -> None:
    """Write records of tenants, a few of which have most of them, into eight files."""
    stream = workloads.make("zipf", z=1.3, n_keys=300, n_records=n_records)
    tenants = np.concatenate(list(stream.ranks(1)))
    rng = np.random.default_rng(2)
    folder.mkdir()
    for number, part in enumerate(np.array_split(tenants, 8)):
        table = pa.table(
            {
                "tenant": part,
                "amount": rng.random(part.size),
                "note": rng.integers(0, 1 << 60, part.size).astype(str),
            }
        )
        pq.write_table(table, folder / f"{number}.parquet")


def measure(spark: SparkSession, folder: Path, turns: int) -> Iterator[Row]:
    records = spark.read.parquet(str(folder / "in"))
    expected = records.agg(F.count("*"), F.sum("tenant"), F.sum(F.xxhash64("note") % 1000)).first()
    for turn in track(range(-1, turns), "turns"):  # the first one warms up
        for name, way in WAYS.items():
            out = folder / "out"
            shutil.rmtree(out, ignore_errors=True)
            begin = time.perf_counter()
            way(records).write.partitionBy("tenant").parquet(str(out))
            seconds = time.perf_counter() - begin
            if turn < 0:
                continue
            yield {"way": name, "turn": turn, "seconds": seconds} | sizes(out)
        written = spark.read.parquet(str(out))
        found = written.agg(F.count("*"), F.sum("tenant"), F.sum(F.xxhash64("note") % 1000)).first()
        if found != expected:
            raise RuntimeError(f"the records that were written differ: {found}, not {expected}")


def sizes(out: Path) -> Row:
    """Return what the files tell: a task writes the files with its number in their names."""
    files = list(out.rglob("*.parquet"))
    by_task: dict[str, int] = {}
    for file in files:
        task = file.name.split("-")[1]
        by_task[task] = by_task.get(task, 0) + pq.read_metadata(file).num_rows
    return {
        "files": len(files),
        "files_of_hottest": len(list((out / "tenant=1").glob("*.parquet"))),
        "largest_file": max(file.stat().st_size for file in files),
        "largest_task": max(by_task.values()),
        "mean_task": sum(by_task.values()) / WORKERS,
    }


def main(
    records: Annotated[int, typer.Option(help="Records to write.")] = 3_000_000,
    turns: Annotated[int, typer.Option(help="How often each way is measured.")] = 3,
) -> None:
    """Measure all ways."""
    spark = session("skewed writes", master="local[2]")
    with tempfile.TemporaryDirectory() as folder:
        make_records(Path(folder) / "in", records)
        write_records(SKEWED_WRITES, measure(spark, Path(folder), turns))
    spark.stop()
    print(f"raw records: {SKEWED_WRITES}")
    write_skewed_writes()


if __name__ == "__main__":
    typer.run(main)
