"""Measure the least time of a micro-batch: every keyed operator beside Spark's own operators.

All queries read the same small files, one in a micro-batch, in turns within one session. With
`closes_without_data`, micro-batches without data come after some of them; only those with data
count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.on_spark.stateful_operators import Totals
from benchmarks.records import BENCHMARKS, Report, Row, grouped, markdown, seconds
from benchmarks.streams import write_files
from benchmarks.turns import file_stream, in_turns, run_to_end, spark_and_folder
from skewless.cli.option import option
from skewless.spark import deduplicate, join, process, sessions, top_n

SPARKS = "groupBy().count()"
CLOSING = ", closes_without_data"
#: Records of a key in a micro-batch, if that is large.
PER_KEY = 5
WARM = 2  # micro-batches of each query that do not count
_AT: dict[str, Any] = {"watermark": ("ts", "10 seconds")}


def ways(workers: int) -> dict[str, Callable[[DataFrame, Path], DataFrame]]:
    """Return each way to run over a stream, with a folder for its ledger."""

    def ours(call: Callable[..., DataFrame], *, closes: bool = False) -> Any:
        extra = {"closes_without_data": True} if closes else {}
        return lambda df, folder: call(df, workers=workers, ledger=str(folder / "ledger"), **extra)

    def joined(df: DataFrame, **placement: Any) -> DataFrame:
        return join(df, df.select("k", "ts"), "k", within="1 second", **_AT, **placement)

    timed: dict[str, Callable[..., DataFrame]] = {
        "process": lambda df, **p: process(df, "k", Totals(), **_AT, **p),
        "sessions": lambda df, **p: sessions(df, "k", "5 seconds", **_AT, **p),
        "deduplicate": lambda df, **p: deduplicate(df, "k", within="5 seconds", **_AT, **p),
        "join": joined,
    }
    found: dict[str, Any] = {SPARKS: lambda df, _: df.groupBy("k").count()}
    found |= {f"Spark's {name}": way for name, way in sparks_own().items()}
    for name, call in timed.items():
        found[name] = ours(call)
        found[name + CLOSING] = ours(call, closes=True)
    found["top_n"] = ours(lambda df, **p: top_n(df, "k", "v", 3, **p))
    return found


def sparks_own() -> dict[str, Callable[[DataFrame, Path], DataFrame]]:
    """Build the same results with Spark alone, where Spark has an operator for them."""

    def joined(df: DataFrame, _: Path) -> DataFrame:
        one = df.withWatermark("ts", "10 seconds").alias("l")
        other = df.select("k", "ts").withWatermark("ts", "10 seconds").alias("r")
        near = "l.ts BETWEEN r.ts - INTERVAL 1 SECOND AND r.ts + INTERVAL 1 SECOND"
        return one.join(other, F.expr(f"l.k = r.k AND {near}"))

    return {
        "sessions": lambda df, _: (
            df.withWatermark("ts", "10 seconds")
            .groupBy("k", F.session_window("ts", "5 seconds"))
            .count()
        ),
        "deduplicate": lambda df, _: df.withWatermark(
            "ts", "10 seconds"
        ).dropDuplicatesWithinWatermark(["k"]),
        "join": joined,
    }


def make_records(n_batches: int, n_records: int) -> Iterator[pa.Table]:
    """Yield a table for each micro-batch, each a second later than the one before."""
    rng = np.random.default_rng(5)
    n_keys = max(1_000, n_records // PER_KEY)
    for batch in range(n_batches):
        micros = (1_700_000_000 + batch) * 1_000_000 + rng.integers(0, 1_000_000, n_records)
        yield pa.table(
            {
                "k": [f"key-{key}" for key in rng.integers(0, n_keys, n_records)],
                "v": rng.integers(0, 100, n_records) * 1.0,
                "ts": pa.array(micros, pa.timestamp("us", "UTC")),
            }
        )


def measure(
    spark: SparkSession, folder: Path, sizes: Sequence[int], workers: int, turns: int
) -> Iterator[Row]:
    """Run every way over all micro-batches in every turn; yield the seconds of each.

    The turn before the first one warms up.
    """
    chosen = ways(workers)
    cells = [(size, name) for size in sizes for name in chosen]
    for turn, (size, name) in in_turns(cells, turns, "queries", first=-1):
        place = folder / f"{turn}-{size}-{name}"
        stream = file_stream(spark, "k string, v double, ts timestamp", folder / f"in-{size}")
        mode = "update" if name == SPARKS else "append"
        query = run_to_end(chosen[name](stream, place), place, mode)
        told = [p for p in query.recentProgress if p["numInputRows"]]
        for number, progress in enumerate(told[WARM:] if turn >= 0 else ()):
            took = progress["durationMs"]["triggerExecution"] / 1000
            yield {"records": size, "way": name, "turn": turn, "batch": number, "seconds": took}


def table(records: Sequence[Row]) -> str:
    """Return one line for each way; ratios are medians of turns, to Spark's in the same turn."""
    rows = []
    for (size, name), mine in grouped(records, "records", "way").items():
        took = {turn: median(map(seconds, of)) for turn, of in grouped(mine, "turn").items()}
        sparks = [r for r in records if (r["records"], r["way"]) == (size, SPARKS)]
        least = {turn: median(map(seconds, of)) for turn, of in grouped(sparks, "turn").items()}
        ratio = sorted(took[turn] / least[turn] for turn in took)
        span = f"{ratio[0]:.2f}–{ratio[-1]:.2f}"
        rows.append(
            [f"{size:,}", name, f"{median(took.values()):.2f} s", f"{median(ratio):.2f}", span]
        )
    return markdown("records | way | median time | time / groupBy | in turns", rows, n_left=2)


REPORT = Report(
    "on_spark/small_batches.jsonl",
    {(BENCHMARKS, "small batches"): table},
    command="python -m benchmarks.on_spark.small_batches",
)


def main(
    batches: int = option(12, "Micro-batches of each query."),
    records: str = option("100", "Records of a micro-batch: numbers with commas between them."),
    workers: int = option(8, "Workers, and partitions of Spark's state."),
    turns: int = option(3, "How often each query runs."),
) -> None:
    """Measure all ways."""
    settings = {"spark.sql.shuffle.partitions": str(workers)}
    settings["spark.sql.streaming.numRecentProgressUpdates"] = "1000"
    sizes = [int(size) for size in records.split(",")]
    with spark_and_folder("small batches", settings=settings) as (spark, folder):
        for size in sizes:
            write_files(folder / f"in-{size}", make_records(batches, size), rows=10_000)
        REPORT.write(measure(spark, folder, sizes, workers, turns))


if __name__ == "__main__":
    typer.run(main)
