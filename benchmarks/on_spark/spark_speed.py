"""Measure routing on Spark against key hashing and salting; write raw records and the tables.

Everything is a ratio inside one run: the jobs of a comparison take turns, and each record holds
the seconds of one job.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import typer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.records import BENCHMARKS, Report, Row, grouped, markdown, ratios
from benchmarks.streams import write_files, zipf_keys
from benchmarks.turns import in_turns, spark_and_folder, throw_away, timed
from skewless.cli.option import option
from skewless.metrics import imbalance
from skewless.spark import route, session
from skewless.spark.routing.seeds import hash_seed
from skewless.spark.state.planning.placing import PLACES, Placing, as_moving, worker_column
from skewless.strategies import Mixed

WORKERS = 32
WORK_US = 100
SALTS = (2, 4, 8, 16, 32)
DAEMONS = {"Spark's": "pyspark.daemon", "skewless's": "skewless.spark.daemon"}
KERNELS = ("compiled before", "not yet compiled")


def jobs_of(df: DataFrame, names: Sequence[str]) -> dict[str, Callable[[], DataFrame]]:
    """Return key hashing, and each of these strategies, as functions."""
    jobs: dict[str, Callable[[], DataFrame]] = {"hash": partial(df.repartition, WORKERS, "key")}
    for name in names:
        settings: Row = {"strategy": name.split(",")[0], "workers": WORKERS, "seed": 0}
        jobs[name] = partial(route, df, "key", **settings)
    return jobs


def salted(df: DataFrame, salt: int) -> DataFrame:
    drawn = df.withColumn("salt", (F.rand(seed=1) * salt).cast("int"))
    return drawn.repartition(WORKERS, "key", "salt")


def placed(df: DataFrame) -> DataFrame:
    """Shuffle rows as `process` does: Spark looks up the worker in a plan, without Python."""
    strategy = as_moving(Mixed())
    row = Placing(strategy, strategy.start(WORKERS, 0), WORKERS).row(hash_seed(0))
    plan = df.sparkSession.range(0, 1, 1, 1).mapInArrow(
        lambda batches: (row for _ in batches), PLACES
    )
    plan = plan.toDF(*["plan_" + name for name in plan.columns])
    joined = df.crossJoin(F.broadcast(plan)).withColumn("h", F.xxhash64("key", "plan_seed"))
    worker = worker_column(F.col("h"), "plan_").cast("int").alias("w")
    return joined.select(*df.columns, worker).repartitionById(WORKERS, F.col("w"))


def with_work(n_records: int, repeats: int) -> Iterator[Row]:
    """Each record costs an outside call; as many task slots as workers, since they only wait."""
    with spark_and_folder("work", WORKERS) as (spark, folder):
        for z in (1.4, 0.0):
            files = write_files(folder / f"work-{z}", stream(n_records, z, 8))
            df = spark.read.parquet(str(files))
            jobs = jobs_of(df, ("cascade", "cascade-ahead"))
            for salt in SALTS if z else ():
                jobs[f"salt {salt}"] = partial(salted, df, salt)
            run_once(jobs["cascade-ahead"]())  # starts the Python workers of all slots
            for turn, name in in_turns(jobs, repeats, f"{WORK_US} µs per record, z = {z}"):
                about = {"comparison": f"work z={z}", "job": name, "turn": turn}
                size = {"records": n_records, "workers": WORKERS, "work_us": WORK_US}
                yield about | run_once(jobs[name]()) | size


def without_work(n_rows: int, repeats: int) -> Iterator[Row]:
    """Rows are shuffled and thrown away: what routing adds is all there is to see."""
    with spark_and_folder("shuffle") as (spark, folder):
        df = spark.read.parquet(str(write_files(folder / "in", stream(n_rows, 1.4, 4))))
        jobs = jobs_of(df, ("cascade", "cascade-ahead", "hash, routed"))
        jobs["hash, as in process"] = partial(placed, df)
        for turn, name in in_turns(jobs, repeats, "no work", first=-1):
            took, _ = timed(lambda job=jobs[name]: throw_away(job()))
            about = {"comparison": "shuffle", "job": name, "turn": turn, "seconds": took}
            if turn >= 0:
                yield about | {"records": n_rows, "workers": WORKERS, "work_us": 0}


def first_routes(folder: Path, repeats: int) -> Iterator[Row]:
    """Every case has a session of its own, and in it a first Python job and then two routes."""
    compiled = folder / "kernels"
    for module in DAEMONS.values():  # Java warms up, and the kernels are compiled
        time_first_route(module, compiled)
    cases = [(kernels, daemon) for kernels in KERNELS for daemon in DAEMONS]
    for turn, (kernels, daemon) in in_turns(cases, repeats, "first route"):
        module = DAEMONS[daemon]
        new = folder / f"kernels-{turn}-{module}"
        took = time_first_route(module, new if kernels == "not yet compiled" else compiled)
        yield {"daemon": daemon, "kernels": kernels, "turn": turn, **took}


def time_first_route(module: str, cache: Path) -> Row:
    """Return the seconds of the first Python job, of the first route and of the second one."""
    settings = {
        "spark.python.daemon.module": module,
        "spark.executorEnv.SKEWLESS_CACHE_DIR": str(cache),
    }
    spark = session("first route", master="local[2]", settings=settings)
    df = spark.range(0, 10_000, 1, 2).withColumn("key", F.col("id") % 100)
    throw_away(df.repartition(2, "key"))
    jobs: dict[str, Callable[[], DataFrame]] = {
        "python_start_s": lambda: df.mapInArrow(lambda batches: batches, df.schema),
        "first_route_s": lambda: route(df, "key", strategy="cascade-ahead", workers=2, seed=0),
    }
    jobs["second_route_s"] = jobs["first_route_s"]
    measured = {name: timed(lambda job=job: throw_away(job()))[0] for name, job in jobs.items()}
    spark.stop()
    return measured


def stream(n_records: int, z: float, n_files: int) -> Iterator[pa.Table]:
    """Yield records with a text key, two numbers and a text beside it."""
    for part in np.array_split(zipf_keys(z, 100_000, n_records), n_files):
        keys = pa.array([f"key-{key:x}" for key in part.tolist()])
        n = np.arange(part.size)
        yield pa.table({"key": keys, "number": n, "price": n / 4, "text": ["x" * 40] * part.size})


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


def run_once(df: DataFrame) -> Row:
    """Run the job to its merged result; return seconds, load per worker, replicas and keys."""
    counted = df.mapInArrow(count_slowly, "key string, n bigint, worker int")
    merged = counted.groupBy("key").agg(F.collect_list("worker").alias("w"), F.collect_list("n"))
    took, rows = timed(merged.toArrow)
    workers, counts = (rows.column(i).combine_chunks().flatten().to_numpy() for i in (1, 2))
    loads = np.bincount(workers, counts, WORKERS).astype(int).tolist()
    return {"seconds": took, "loads": loads, "pairs": workers.size, "keys": rows.num_rows}


def table(records: Sequence[Row], comparison: str) -> str:
    """Return the jobs of one comparison: time against hashing, balance, and replicas."""
    chosen = grouped(records, "comparison")[comparison]
    jobs = grouped(chosen, "job")
    has_loads = any("loads" in record for record in chosen)
    rows = []
    for job, mine in jobs.items():
        ratio, last = median(ratios(mine, jobs["hash"])), mine[-1]
        row = [job, f"{ratio:.2f}", f"{1 / ratio:.2f}"]
        if has_loads:
            row += [f"{imbalance(last['loads']):.2g}", f"{last['pairs'] - last['keys']:,}"]
        rows.append(row)
    balance = " | imbalance | extra replicas" if has_loads else ""
    return markdown(f"job | time / hash | throughput / hash{balance}", rows)


def first_route_table(records: Sequence[Row]) -> str:
    """Build the table of start-up times by case, divided by that of the session's second route."""
    rows = []
    for case, chosen in grouped(records, "daemon", "kernels").items():
        found = (
            median(record[what] / record["second_route_s"] for record in chosen)
            for what in ("python_start_s", "first_route_s")
        )
        rows.append([*case, *[f"{ratio:.1f}" for ratio in found]])
    headings = "daemon | kernels | start of Python / second route | first / second route"
    return markdown(headings, rows)


SPEEDS = Report(
    "on_spark/spark_speed.jsonl",
    {
        (BENCHMARKS, f"spark {name}"): partial(table, comparison=name)
        for name in ("work z=1.4", "work z=0.0", "shuffle")
    },
)
FIRST_ROUTES = Report(
    "on_spark/first_route.jsonl", {(BENCHMARKS, "spark first route"): first_route_table}
)


def main(
    records: int = option(2_000_000, "Records of the jobs with work."),
    rows: int = option(3_000_000, "Rows of the jobs without work."),
    repeats: int = option(3, "Turns of each comparison."),
    first_route_only: bool = option(
        False, "Measure how long beginning takes, only.", "--first-route-only"
    ),
) -> None:
    """Measure routing on Spark against key hashing and salting; write raw records and tables."""
    if not first_route_only:
        SPEEDS.write([*with_work(records, repeats), *without_work(rows, repeats)])
    with tempfile.TemporaryDirectory() as folder:
        FIRST_ROUTES.write(first_routes(Path(folder), repeats))


if __name__ == "__main__":
    typer.run(main)
