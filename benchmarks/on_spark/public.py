"""Measure NEXMark and ShuffleBench by plain Spark and by skewless; write raw records and the table.

Both ways of a query run in turn on the same files, as streams, and must give the same results. The
first round is short and warms up. The rounds end early if another one would take too long.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import SparkSession
from rich.progress import Progress

from benchmarks.tables import PUBLIC, write_public
from skewless.apps.public import nexmark
from skewless.apps.public.auctions import Auctions
from skewless.apps.public.query import Query
from skewless.apps.public.running import Run, run_stream
from skewless.apps.public.shuffle_records import ShuffleRecords
from skewless.apps.public.shufflebench import SCHEMAS, shufflebench
from skewless.apps.public.spark_state import APPLY, TRANSFORM, missing_for_transform
from skewless.experiments.on_spark.public import OURS, PLAIN
from skewless.experiments.tables import Row, write_records
from skewless.spark import session

QUERIES: tuple[tuple[Query, Mapping[str, str]], ...] = (
    *((query, nexmark.SCHEMAS) for query in nexmark.QUERIES.values()),
    (shufflebench(), SCHEMAS),
)


def write_streams(folder: Path, events: int, records: int) -> None:
    """Write both streams. The short ones for the warm-up have the same number of files."""
    Auctions(n_events=events, n_batches=4).write(folder / "measured")
    ShuffleRecords(n_records=records).write(folder / "measured")
    Auctions(n_events=max(events // 20, 1000), n_batches=4).write(folder / "warming")
    ShuffleRecords(n_records=max(records // 20, 100)).write(folder / "warming")


def one_round(
    spark: SparkSession, inputs: Path, number: int, chosen: list[str], scratch: Path
) -> Iterator[Row]:
    """Run every query in both ways; the way that begins changes with the round."""
    for query, schemas in QUERIES:
        if chosen and query.name not in chosen:
            continue
        runs: dict[str, Run] = {}
        for way in (PLAIN, OURS) if number % 2 else (OURS, PLAIN):
            # Another one each time: Spark may still write into one that was deleted.
            folder = scratch / f"{number}-{query.name}-{way}"
            runs[way] = run_stream(spark, query, schemas, inputs, folder, ours=way == OURS)
            shutil.rmtree(folder)
        if not runs[PLAIN].results.equals(runs[OURS].results):
            raise RuntimeError(f"{query.name}: the results of both ways differ")
        for way, run in runs.items():
            yield {
                "query": query.name,
                "asks": query.asks,
                "plain_verb": query.plain_verb,
                "our_verb": query.our_verb,
                "way": way,
                "round": number,
                "n_streams": len(query.reads),
                "batch_records": run.n_records,
                "batch_seconds": run.seconds,
                "rows": run.results.num_rows,
            }


def measure(
    spark: SparkSession, folder: Path, rounds: int, minutes: float, chosen: list[str]
) -> Iterator[Row]:
    begin = time.perf_counter()
    with Progress() as progress:
        task = progress.add_task("rounds", total=rounds + 1)
        for _ in one_round(spark, folder / "warming", 0, chosen, folder):
            pass
        progress.advance(task)
        longest = 0.0
        for number in range(1, rounds + 1):
            now = time.perf_counter()
            if longest and now - begin + longest > minutes * 60:
                break
            yield from one_round(spark, folder / "measured", number, chosen, folder)
            longest = max(longest, time.perf_counter() - now)
            progress.advance(task)


def main(
    events: Annotated[int, typer.Option(help="Events of NEXMark.")] = 400_000,
    records: Annotated[int, typer.Option(help="Records of ShuffleBench.")] = 20_000,
    rounds: Annotated[int, typer.Option(help="How often each way is measured.")] = 3,
    minutes: Annotated[
        float, typer.Option(help="Stops before a round that would exceed them.")
    ] = 5,
    query: Annotated[list[str] | None, typer.Option(help="Only these, as Q5.")] = None,
) -> None:
    """Measure all queries."""
    known = [each.name for each, _ in QUERIES]
    for name in query or []:
        if name not in known:
            raise typer.BadParameter(f"--query must be one of {', '.join(known)}, not {name!r}")
    settings = {"spark.sql.shuffle.partitions": "4", "spark.sql.session.timeZone": "UTC"}
    missing = missing_for_transform()
    if missing is not None:
        print(f"ShuffleBench's plain query is {APPLY}, not {TRANSFORM}: {missing}")
    spark = session("public workloads", master="local[2]", settings=settings)
    with tempfile.TemporaryDirectory() as folder:
        write_streams(Path(folder), events, records)
        # All at once: a run that fails leaves the records of the last one.
        found = list(measure(spark, Path(folder), rounds, minutes, query or []))
        write_records(PUBLIC, found)
    spark.stop()
    print(f"raw records: {PUBLIC}")
    write_public()


if __name__ == "__main__":
    typer.run(main)
