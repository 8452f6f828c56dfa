"""Measure partitioned writes of skewed keys; write the raw records and the table.

Every way writes the same records with `partitionBy`, and the ways take turns. What is written is
read again and compared.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.records import Report, Row, grouped, markdown, ratios, times
from benchmarks.streams import write_files
from benchmarks.turns import in_turns, spark_and_folder, timed
from skewless.cli.option import option
from skewless.spark import route
from skewless.workloads import Zipf

OURS = "route"
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


def make_records(n_records: int) -> Iterator[pa.Table]:
    """Yield records of tenants, a few of which have most of them, in eight tables."""
    tenants = np.concatenate(list(Zipf(z=1.3, n_keys=300, n_records=n_records).ranks(1)))
    rng = np.random.default_rng(2)
    for part in np.array_split(tenants, 8):
        note = rng.integers(0, 1 << 60, part.size).astype(str)
        yield pa.table({"tenant": part, "amount": rng.random(part.size), "note": note})


def measure(spark: SparkSession, folder: Path, turns: int) -> Iterator[Row]:
    records = spark.read.parquet(str(folder / "in"))
    expected = digest(records)
    for turn, name in in_turns(WAYS, turns, "turns", first=-1):
        out = folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        writer = WAYS[name](records).write.partitionBy("tenant")
        took, _ = timed(writer.parquet, str(out))
        found = digest(spark.read.parquet(str(out)))
        if found != expected:
            raise RuntimeError(f"{name}: what was written differs: {found}, not {expected}")
        if turn >= 0:
            yield {"way": name, "turn": turn, "seconds": took} | sizes(out)


def digest(df: DataFrame) -> object:
    return df.agg(F.count("*"), F.sum("tenant"), F.sum(F.xxhash64("note") % 1000)).first()


def sizes(out: Path) -> Row:
    """Count and measure files and tasks; the name of a file has the number of its task."""
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


def table(records: Sequence[Row]) -> str:
    """Return one line per way; times are medians of ratios to `route` in the same turn."""
    by_way = grouped(records, "way")
    rows = []
    for way, mine in by_way.items():
        first = mine[0]
        counts = [f"{first['files']:,}", f"{first['files_of_hottest']:,}"]
        largest = f"{first['largest_file'] / 2**20:.1f} MiB"
        task = f"{first['largest_task'] / first['mean_task']:.2f}"
        rows.append([way, times(ratios(mine, by_way[OURS])), *counts, largest, task])
    sizes = "files | files of the hottest key | largest file | largest task / mean"
    return markdown(f"before the write | time / route | {sizes}", rows)


REPORT = Report("on_spark/skewed_writes.jsonl", {("docs/skewed-writes.md", "skewed writes"): table})


def main(
    records: int = option(3_000_000, "Records to write."),
    turns: int = option(3, "How often each way is measured."),
) -> None:
    """Measure all ways."""
    with spark_and_folder("skewed writes") as (spark, folder):
        write_files(folder / "in", make_records(records))
        REPORT.write(measure(spark, folder, turns))


if __name__ == "__main__":
    typer.run(main)
