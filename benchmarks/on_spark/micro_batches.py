"""Measure micro-batches of few and of many records: keyed operators beside Spark's own ones.

All queries read the same files, one micro-batch after the other, in turns within one session. With
`closes_without_data`, micro-batches without data come after some of them; only those with data
count. The first turn warms up, and compares the rows of the ways that should give the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as F

from benchmarks.records import BENCHMARKS, Report, Row, grouped, markdown
from benchmarks.streams import write_files
from benchmarks.turns import file_stream, in_turns, run_to_end, spark_and_folder
from skewless.cli.option import option
from skewless.spark import (
    KeyProcessor,
    Processor,
    Update,
    deduplicate,
    join,
    process,
    sessions,
    top_n,
)

SPARKS = "groupBy().count()"
CLOSING = ", closes_without_data"
#: A count and a sum for each key, in three ways.
OURS, BY_KEY, SPARKS_STATE = "process", "process, one key at a time", "transformWithState"
RESULT = "k string, n bigint, total double"
STATE = "n bigint, total double"
#: Records of a key in a micro-batch, if that is large.
PER_KEY = 5
WARM = 2  # micro-batches of each query that do not count
_AT: dict[str, Any] = {"watermark": ("ts", "10 seconds")}


class Totals(Processor):
    """Counts and adds, all keys of a worker at once."""

    state_schema = STATE
    result_schema = RESULT

    def update(self, keyed: Any) -> Update:
        n = pc.add(keyed.states.field("n").fill_null(0), pa.array(np.diff(keyed.starts)))
        sums = np.add.reduceat(keyed.records["v"].to_numpy(), keyed.starts[:-1])
        total = pc.add(keyed.states.field("total").fill_null(0.0), pa.array(sums))
        results = pa.table([keyed.keys["k"], n, total], ["k", "n", "total"])
        return Update(results, pa.StructArray.from_arrays([n, total], ["n", "total"]))


class TotalsOfKey(KeyProcessor):
    """The same as `Totals`, one key at a time."""

    state_schema = STATE
    result_schema = RESULT

    def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
        n, total = (state["n"], state["total"]) if state else (0, 0.0)
        for record in records:
            n, total = n + 1, total + record["v"]
        new = {"n": n, "total": total}
        return [new], new


def spark_processor() -> Any:
    """Build the same for Spark, by rows: its fastest operator for states in Python."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Rows(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.totals = handle.getValueState("totals", STATE)

        def handleInputRows(self, key: Any, rows: Any, timer_values: Any) -> Iterator[Any]:  # noqa: N802
            n, total = self.totals.get() if self.totals.exists() else (0, 0.0)
            for row in rows:
                n, total = n + 1, total + row["v"]
            self.totals.update((n, total))
            yield SparkRow(k=key[0], n=n, total=total)

        def close(self) -> None: ...

    return Rows()


def ways(workers: int) -> dict[str, Callable[[DataFrame, Path], DataFrame]]:
    """Return each way to run over a stream, with a folder for its ledger."""

    def ours(call: Callable[..., DataFrame], **extra: Any) -> Any:
        return lambda df, folder: call(df, workers=workers, ledger=str(folder / "ledger"), **extra)

    def joined(df: DataFrame, **placement: Any) -> DataFrame:
        return join(df, df.select("k", "ts"), "k", within="1 second", **_AT, **placement)

    timed: dict[str, Callable[..., DataFrame]] = {
        OURS: lambda df, **p: process(df, "k", Totals(), **_AT, **p),
        "sessions": lambda df, **p: sessions(df, "k", "5 seconds", **_AT, **p),
        "deduplicate": lambda df, **p: deduplicate(df, "k", within="5 seconds", **_AT, **p),
        "join": joined,
    }
    found: dict[str, Any] = {SPARKS: lambda df, _: df.groupBy("k").count()}
    found |= {f"Spark's {name}": way for name, way in sparks_own().items()}
    for name, call in timed.items():
        found[name] = ours(call)
        found[name + CLOSING] = ours(call, closes_without_data=True)
    found["top_n"] = ours(lambda df, **p: top_n(df, "k", "v", 3, **p))
    found[BY_KEY] = ours(lambda df, **p: process(df, "k", TotalsOfKey(), **p))
    found[SPARKS_STATE] = lambda df, _: df.groupBy("k").transformWithState(
        spark_processor(), RESULT, "Update", "None"
    )
    return found


def sparks_own() -> dict[str, Callable[[DataFrame, Path], DataFrame]]:
    """Build the same results with Spark alone, where Spark has an operator for them."""

    def joined(df: DataFrame, version: int) -> DataFrame:
        df.sparkSession.conf.set("spark.sql.streaming.join.stateFormatVersion", str(version))
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
        "join": lambda df, _: joined(df, 2),  # Spark's default
        "join, state format 4": lambda df, _: joined(df, 4),
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
    """Run every way over all micro-batches in every turn; yield the seconds of each."""
    chosen = ways(workers)
    same: dict[int, dict[int, pa.Table]] = {}
    cells = [(size, name) for size in sizes for name in chosen]
    for turn, (size, name) in in_turns(cells, turns, "queries", first=-1):
        place = folder / f"{turn}-{size}-{name}"
        stream = file_stream(spark, "k string, v double, ts timestamp", folder / f"in-{size}")
        mode = "update" if name in (SPARKS, SPARKS_STATE) else "append"
        rows: dict[int, pa.Table] = {}
        is_compared = turn < 0 and name in (OURS, BY_KEY, SPARKS_STATE)
        write = {"write": partial(_keep, rows)} if is_compared else {}
        query = run_to_end(chosen[name](stream, place), place, mode, **write)
        if is_compared and rows != same.setdefault(size, rows):
            raise RuntimeError(f"{name} gives other rows than another way")
        told = [p for p in query.recentProgress if p["numInputRows"]]
        for number, progress in enumerate(told[WARM:] if turn >= 0 else ()):
            took = progress["durationMs"]["triggerExecution"] / 1000
            yield {"records": size, "way": name, "turn": turn, "batch": number, "seconds": took}


def _keep(rows: dict[int, pa.Table], df: DataFrame, number: int) -> None:
    rows[number] = df.toArrow().sort_by("k")


def table(records: Sequence[Row]) -> str:
    """Return one line for each way; ratios are medians of turns, to Spark's in the same turn."""
    of_turns = grouped(records, "records", "way", "turn")
    took = {cell: median(one["seconds"] for one in mine) for cell, mine in of_turns.items()}
    rows = []
    for size, name in grouped(records, "records", "way"):
        mine = {turn: took[size, name, turn] for *cell, turn in took if cell == [size, name]}
        ratio = sorted(mine[turn] / took[size, SPARKS, turn] for turn in mine)
        span = f"{ratio[0]:.2f}–{ratio[-1]:.2f}" if len(ratio) > 1 else "one turn"
        rows.append(
            [f"{size:,}", name, f"{median(mine.values()):.2f} s", f"{median(ratio):.2f}", span]
        )
    return markdown("records | way | median time | time / groupBy | in turns", rows, n_left=2)


REPORT = Report(
    "on_spark/micro_batches.jsonl",
    {(BENCHMARKS, "micro-batches"): table},
    command="python -m benchmarks.on_spark.micro_batches",
)


def main(
    batches: int = option(12, "Micro-batches of each query."),
    records: str = option("100", "Records of a micro-batch: numbers with commas between them."),
    workers: int = option(8, "Workers, and partitions of Spark's state."),
    turns: int = option(3, "How often each query runs."),
) -> None:
    """Measure all ways; records of other sizes stay."""
    settings = {"spark.sql.shuffle.partitions": str(workers)}
    settings["spark.sql.streaming.numRecentProgressUpdates"] = "1000"
    sizes = [int(size) for size in records.split(",")]
    with spark_and_folder("micro-batches", settings=settings) as (spark, folder):
        for size in sizes:
            write_files(folder / f"in-{size}", make_records(batches, size), rows=10_000)
        found = list(measure(spark, folder, sizes, workers, turns))
    kept = [one for one in REPORT.read() if one["records"] not in sizes]
    REPORT.write(sorted(kept + found, key=lambda one: one["records"]))


if __name__ == "__main__":
    typer.run(main)
