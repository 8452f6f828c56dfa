"""Runs jobs in turns, and streams to their end, with a session and a folder for the time being."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.progress import track

from skewless.apps.main_job import finish
from skewless.spark import session

T = TypeVar("T")


@contextlib.contextmanager
def spark_and_folder(
    title: str, slots: int = 2, settings: dict[str, str] | None = None
) -> Iterator[tuple[SparkSession, Path]]:
    """Yield a session with this many slots, and a folder; both end."""
    spark = session(title, master=f"local[{slots}]", settings=settings)
    with tempfile.TemporaryDirectory() as folder:
        yield spark, Path(folder)
    spark.stop()


def in_turns(names: Iterable[T], turns: int, title: str, first: int = 0) -> Iterator[tuple[int, T]]:
    """Yield each name in each turn; turns below 0 warm up.

    Backwards in every second turn: a machine that becomes busy hits others.
    """
    forwards = list(names)
    order = [(n, name) for n in range(first, turns) for name in forwards[:: 1 - 2 * (n % 2)]]
    yield from track(order, title)


def timed(job: Callable[..., T], *arguments: Any) -> tuple[float, T]:
    """Run a job; return its seconds and its result."""
    begin = time.perf_counter()
    result = job(*arguments)
    return time.perf_counter() - begin, result


def throw_away(df: DataFrame) -> None:
    """Compute all rows, and write them nowhere."""
    df.write.format("noop").mode("overwrite").save()


def file_stream(spark: SparkSession, schema: str, folder: Path, files: int = 1) -> DataFrame:
    """Return a folder of Parquet files as a stream of so many files per micro-batch."""
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", files)
    return reader.parquet(str(folder))


def run_to_end(
    df: DataFrame,
    folder: Path,
    mode: str = "append",
    write: Callable[[DataFrame, int], None] = lambda rows, batch: throw_away(rows),
) -> StreamingQuery:
    """Run a stream over all that there is, with its checkpoint in `folder`; return the query."""
    return finish(
        df.writeStream.outputMode(mode)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .foreachBatch(write)
        .trigger(availableNow=True)
    )


def batch_times(write: Callable[[DataFrame, int], Any]) -> tuple[Any, list[float]]:
    """Return `write` as it is handed to Spark, and the list that the seconds of batches go to.

    The time of a micro-batch is that since the last one has ended.
    """
    times: list[float] = []
    begin = time.perf_counter()

    def written(rows: DataFrame, batch: int) -> None:
        nonlocal begin
        write(rows, batch)
        now = time.perf_counter()
        times.append(now - begin)
        begin = now

    return written, times
