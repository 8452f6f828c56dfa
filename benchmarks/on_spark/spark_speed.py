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

from benchmarks.tables import FIRST_ROUTE, SPARK_SPEED, write_spark_tables
from skewless import workloads
from skewless.experiments.tables import write_records
from skewless.spark import route, session

WORKERS = 32
WORK_US = 100
SALTS = (2, 4, 8, 16, 32)
DAEMONS = {"Spark's": "pyspark.daemon", "skewless's": "skewless.spark.daemon"}
KERNELS = ("compiled before", "not yet compiled")


def main(
    records: Annotated[int, typer.Option(help="Records of the jobs with work.")] = 2_000_000,
    rows: Annotated[int, typer.Option(help="Rows of the jobs without work.")] = 3_000_000,
    repeats: Annotated[int, typer.Option(help="Turns of each comparison.")] = 3,
    first_route_only: Annotated[
        bool, typer.Option("--first-route-only", help="Measure how long beginning takes, only.")
    ] = False,
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not first_route_only:
            speeds = with_work(folder, records, repeats) + without_work(folder, rows, repeats)
            write_records(SPARK_SPEED, speeds)
            print(f"raw records: {SPARK_SPEED}")
        write_records(FIRST_ROUTE, first_routes(folder, repeats))
        print(f"raw records: {FIRST_ROUTE}")
    write_spark_tables()


def with_work(folder: Path, n_records: int, repeats: int) -> list[dict[str, Any]]:
    """Each record costs an outside call; as many task slots as workers, since they only wait."""
    spark = session("work", master=f"local[{WORKERS}]")
    results = []
    for z in (1.4, 0.0):
        path = write_stream(folder / f"work-{z}", n_records, z, files=8)
        df = spark.read.parquet(str(path))
        jobs: dict[str, Callable[[], Any]] = {
            "hash": lambda df=df: df.repartition(WORKERS, "key"),
            **{
                name: lambda df=df, name=name: route(
                    df, "key", strategy=name, workers=WORKERS, seed=0
                )
                for name in ("cascade", "cascade-ahead")
            },
            **{
                f"salt {salt}": lambda df=df, salt=salt: df.withColumn(
                    "salt", (F.rand(seed=1) * salt).cast("int")
                ).repartition(WORKERS, "key", "salt")
                for salt in (SALTS if z else ())
            },
        }
        run_once(jobs["cascade-ahead"](), count_slowly)  # starts the Python workers of all slots
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
        "cascade": lambda: route(df, "key", strategy="cascade", workers=WORKERS, seed=0),
        "cascade-ahead": lambda: route(
            df, "key", strategy="cascade-ahead", workers=WORKERS, seed=0
        ),
        "hash, routed": lambda: route(df, "key", strategy="hash", workers=WORKERS, seed=0),
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


def first_routes(folder: Path, repeats: int) -> list[dict[str, Any]]:
    """Every case has a session of its own, and in it a first Python job and then two routes."""
    compiled = folder / "kernels"
    for module in DAEMONS.values():  # Java warms up, and the kernels are compiled
        time_first_route(module, compiled)
    results = []
    turns = [(turn, kernels) for turn in range(repeats) for kernels in KERNELS]
    for turn, kernels in track(turns, "first route"):
        for daemon, module in list(DAEMONS.items())[:: -1 if turn % 2 else 1]:
            cache = compiled
            if kernels == "not yet compiled":
                cache = folder / f"kernels-{turn}-{module}"
            results.append(
                {
                    "daemon": daemon,
                    "kernels": kernels,
                    "turn": turn,
                    **time_first_route(module, cache),
                }
            )
    return results


def time_first_route(module: str, cache: Path) -> dict[str, float]:
    """Return what the first Python job, the first route and the second one take."""
    settings = {
        "spark.python.daemon.module": module,
        "spark.executorEnv.SKEWLESS_CACHE_DIR": str(cache),
    }
    spark = session("first route", master="local[2]", settings=settings)
    df = spark.range(0, 10_000, 1, 2).withColumn("key", F.col("id") % 100)

    def seconds(job: Any) -> float:
        begin = time.perf_counter()
        throw_away(job)
        return time.perf_counter() - begin

    def routed() -> Any:
        return route(df, "key", strategy="cascade-ahead", workers=2, seed=0)

    throw_away(df.repartition(2, "key"))
    measured = {
        "python_start_s": seconds(df.mapInArrow(lambda batches: batches, df.schema)),
        "first_route_s": seconds(routed()),
        "second_route_s": seconds(routed()),
    }
    spark.stop()
    return measured


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
