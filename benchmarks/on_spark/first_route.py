"""Measure what new executors cost before they route at full speed; write records and the table."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

import pyspark
import typer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.records import Report, Row, grouped, markdown
from benchmarks.turns import in_turns, throw_away, timed
from skewless.cli.option import option
from skewless.spark import route, session

DAEMONS = {"Spark's": "pyspark.daemon", "skewless's": "skewless.spark.daemon"}
KERNELS = ("not yet compiled", "packed")
#: Two executors on loopback, each a Java process, which share no folder that we name.
MASTER = "local-cluster[2,1,1024]"
#: So many that a route takes seconds: Java's own start after that of Python is a small part.
N_RECORDS = 16_000_000
PACKED = {
    "spark.executorEnv.SKEWLESS_CACHE_DIR": "./packed",
    "spark.executorEnv.NUMBA_CPU_NAME": "generic",
}


def first_routes(folder: Path, repeats: int) -> Iterator[Row]:
    """Every case has executors of its own, and on them a first Python job and then two routes."""
    # Executors leave a folder `work` in the home of Spark, so they get one that vanishes.
    there = Path(pyspark.__file__).parent
    home = shutil.copytree(there, folder / "spark", copy_function=os.symlink)
    os.environ["SPARK_HOME"] = str(home)
    packed = {"spark.archives": f"{pack(folder)}#packed", **PACKED}
    cases = [(kernels, daemon) for kernels in KERNELS for daemon in DAEMONS]
    time_first_route({"spark.python.daemon.module": DAEMONS["Spark's"], **packed})  # Java warms up
    for turn, (kernels, daemon) in in_turns(cases, repeats, "first route"):
        empty = {"spark.executorEnv.SKEWLESS_CACHE_DIR": f"./kernels-{turn}"}
        settings = packed if kernels == "packed" else empty
        took = time_first_route({"spark.python.daemon.module": DAEMONS[daemon], **settings})
        yield {"daemon": daemon, "kernels": kernels, "turn": turn, **took}


def pack(folder: Path) -> str:
    """Compile the kernels into a folder, as the guide to clusters says; return its archive."""
    kernels = folder / "kernels"
    compile_kernels = [sys.executable, "-m", "skewless", "compile", str(kernels)]
    subprocess.check_call([*compile_kernels, "--cpu", "generic"])
    return shutil.make_archive(str(folder / "packed"), "gztar", kernels)


def time_first_route(settings: dict[str, str]) -> Row:
    """Return the seconds of the first Python job, of the first route and of the second one."""
    spark = session("first route", master=MASTER, settings=settings)
    df = spark.range(0, N_RECORDS, 1, 2).withColumn("key", F.col("id") % 100)
    throw_away(df.repartition(2, "key"))
    jobs: dict[str, Callable[[], DataFrame]] = {
        "python_start_s": lambda: df.mapInArrow(lambda batches: batches, df.schema),
        "first_route_s": lambda: route(df, "key", strategy="cascade-ahead", workers=2, seed=0),
    }
    jobs["second_route_s"] = jobs["first_route_s"]
    measured = {name: timed(lambda job=job: throw_away(job()))[0] for name, job in jobs.items()}
    spark.stop()
    return measured


def table(records: Sequence[Row]) -> str:
    """Build the table of start-up times by case, divided by that of the session's second route."""
    rows = []
    for case, chosen in grouped(records, "daemon", "kernels").items():
        found = (
            median(record[what] / record["second_route_s"] for record in chosen)
            for what in ("python_start_s", "first_route_s")
        )
        second = median(record["second_route_s"] for record in chosen)
        rows.append([*case, f"{second:.1f}", *[f"{ratio:.1f}" for ratio in found]])
    headings = (
        "daemon | kernels | second route, seconds | start of Python / second | first / second"
    )
    return markdown(headings, rows)


REPORT = Report(
    "on_spark/first_route.jsonl",
    {("docs/guides/cluster.md", "spark first route"): table},
    command="python -m benchmarks.on_spark.first_route",
)


def main(repeats: int = option(3, "Turns of each case.")) -> None:
    """Measure the start of executors with each daemon, with and without packed kernels."""
    with tempfile.TemporaryDirectory() as folder:
        REPORT.write(first_routes(Path(folder), repeats))


if __name__ == "__main__":
    typer.run(main)
