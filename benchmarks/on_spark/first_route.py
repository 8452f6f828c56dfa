"""Measure what a session costs before it routes at full speed; write raw records and the table."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

import typer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.records import BENCHMARKS, Report, Row, grouped, markdown
from benchmarks.turns import in_turns, throw_away, timed
from skewless.cli.option import option
from skewless.spark import route, session

DAEMONS = {"Spark's": "pyspark.daemon", "skewless's": "skewless.spark.daemon"}
KERNELS = ("compiled before", "not yet compiled")


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


def table(records: Sequence[Row]) -> str:
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


REPORT = Report("on_spark/first_route.jsonl", {(BENCHMARKS, "spark first route"): table})


def main(repeats: int = option(3, "Turns of each case.")) -> None:
    """Measure the start of sessions, with each daemon."""
    with tempfile.TemporaryDirectory() as folder:
        REPORT.write(first_routes(Path(folder), repeats))


if __name__ == "__main__":
    typer.run(main)
