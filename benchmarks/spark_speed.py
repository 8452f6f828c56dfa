"""Measure routing on Spark against key hashing and salting; write raw records and the tables.

Everything is a ratio inside one run: the jobs of a comparison take turns, and each record holds
the seconds of one job.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from pyspark.sql import functions as F
from rich.progress import track

from skewless import workloads
from skewless.experiments.tables import write_records
from skewless.spark import route, session
from tables import SPARK_SPEED, write_all

WORKERS = 32
WORK_US = 100
SALTS = (2, 4, 8, 16, 32)


def main(
    records: Annotated[int, typer.Option(help="Records of the jobs with work.")] = 2_000_000,
    rows: Annotated[int, typer.Option(help="Rows of the jobs without work.")] = 3_000_000,
    repeats: Annotated[int, typer.Option(help="Turns of each comparison.")] = 3,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        results = with_work(Path(folder), records, repeats) + without_work(
            Path(folder), rows, repeats
        )
    write_records(SPARK_SPEED, results)
    print(f"raw records: {SPARK_SPEED}")
    write_all()


def with_work(folder: Path, n_records: int, repeats: int) -> list[dict[str, Any]]:
    """Each record costs an outside call; as many task slots as workers, since they only wait."""
    spark = session("work", master=f"local[{WORKERS}]")
    results = []
    for z in (1.4, 0.0):
        path = write_stream(folder / f"work-{z}", n_records, z, files=8)
        df = spark.read.parquet(str(path))
        jobs: dict[str, Callable[[], Any]] = {
            "hash": lambda df=df: df.repartition(WORKERS, "key"),
            "cascade": lambda df=df: route(df, "key", strategy="cascade", workers=WORKERS),
            **{
                f"salt {salt}": lambda df=df, salt=salt: df.withColumn(
                    "salt", (F.rand(seed=1) * salt).cast("int")
                ).repartition(WORKERS, "key", "salt")
                for salt in (SALTS if z else ())
            },
        }
        run_once(jobs["cascade"](), count_slowly)  # starts the Python workers of all slots
        turns = [(turn, name) for turn in range(repeats) for name in jobs]
        for turn, name in track(turns, f"{WORK_US} µs per record, z = {z}"):
            seconds, loads, pairs, keys = run_once(jobs[name](), count_slowly)
            results.append(
                {
                    "comparison": f"work z={z}",
                    "job": name,
                    "turn": turn,
                    "seconds": seconds,
                    "records": n_records,
                    "workers": WORKERS,
                    "work_us": WORK_US,
                    "loads": loads,
                    "pairs": pairs,
                    "keys": keys,
                }
            )
    spark.stop()
    return results


def without_work(folder: Path, n_rows: int, repeats: int) -> list[dict[str, Any]]:
    """Rows are shuffled and thrown away: what routing adds is all there is to see."""
    spark = session("shuffle", master="local[2]")
    path = write_stream(folder / "shuffle", n_rows, 1.4, files=4)
    df = spark.read.parquet(str(path))
    jobs: dict[str, Callable[[], Any]] = {
        "hash": lambda: df.repartition(WORKERS, "key"),
        "cascade": lambda: route(df, "key", strategy="cascade", workers=WORKERS),
        "hash, routed": lambda: route(df, "key", strategy="hash", workers=WORKERS),
    }
    results = []
    for job in jobs.values():
        throw_away(job())
    turns = [(turn, name) for turn in range(repeats) for name in jobs]
    for turn, name in track(turns, "no work"):
        begin = time.perf_counter()
        throw_away(jobs[name]())
        results.append(
            {
                "comparison": "shuffle",
                "job": name,
                "turn": turn,
                "seconds": time.perf_counter() - begin,
                "records": n_rows,
                "workers": WORKERS,
                "work_us": 0,
            }
        )
    spark.stop()
    return results


def write_stream(folder: Path, n_records: int, z: float, files: int) -> Path:
    """Write records with a text key, two numbers and a text beside it."""
    stream = workloads.make("zipf", z=z, n_keys=100_000, n_records=n_records)
    keys = np.concatenate(list(stream.chunks(seed=0)))
    folder.mkdir()
    for number, part in enumerate(np.array_split(keys, files)):
        texts = pa.array([f"key-{key:x}" for key in part.tolist()])
        numbers = np.arange(part.size)
        table = pa.table(
            {
                "key": texts,
                "number": numbers,
                "price": numbers / 4,
                "text": pa.array(["x" * 40] * part.size),
            }
        )
        pq.write_table(table, folder / f"{number}.parquet")
    return folder


def count_slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Count records by key, after an outside call for each; yield one row per key."""
    from pyspark import TaskContext

    context = TaskContext.get()
    counted: list[pa.Table] = []
    n_records = 0
    for batch in batches:
        time.sleep(batch.num_rows * WORK_US / 1e6)
        n_records += batch.num_rows
        table = pa.Table.from_batches([batch.select(["key"])])
        counted.append(table.group_by("key", use_threads=False).aggregate([("key", "count")]))
    if counted:
        keys = pa.concat_tables(counted).group_by("key", use_threads=False)
        table = keys.aggregate([("key_count", "sum")])
        worker = pa.array([context.partitionId() if context else 0] * table.num_rows, pa.int32())
        arrays = [table.column("key"), table.column("key_count_sum"), worker]
        yield from pa.Table.from_arrays(arrays, names=["key", "n", "worker"]).to_batches()


def run_once(df: Any, work: Any) -> tuple[float, list[int], int, int]:
    """Run the job to its merged result; return seconds, load per worker, replicas and keys."""
    begin = time.perf_counter()
    partial = df.mapInArrow(work, "key string, n bigint, worker int")
    merged = partial.groupBy("key").agg(
        F.sum("n").alias("n"),
        F.count("*").alias("replicas"),
        F.collect_list("worker"),
        F.collect_list("n"),
    )
    rows = merged.toArrow()
    seconds = time.perf_counter() - begin
    loads = np.zeros(WORKERS, np.int64)
    workers = rows.column(3).combine_chunks().flatten().to_numpy()
    np.add.at(loads, workers, rows.column(4).combine_chunks().flatten().to_numpy())
    return seconds, loads.tolist(), int(np.sum(rows.column("replicas").to_numpy())), rows.num_rows


def throw_away(df: Any) -> None:
    df.write.format("noop").mode("overwrite").save()


if __name__ == "__main__":
    typer.run(main)
