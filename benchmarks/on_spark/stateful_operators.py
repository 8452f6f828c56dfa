"""Measure keyed state against Spark's own operators; write the raw records and the table.

The same stream and the same logic: a count and a sum for every key, one result row for each key of
a micro-batch. Each way runs as a query of its own, and its rows are compared with those of the
first.
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
from rich.progress import track

from benchmarks.kinds_of_work import OwnTotals
from benchmarks.records import BENCHMARKS, Report, Row, grouped, markdown, seconds
from benchmarks.streams import write_files
from benchmarks.turns import file_stream, run_to_end, spark_and_folder
from skewless.cli.option import option
from skewless.spark import KeyProcessor, Processor, Update, aggregate, process

OURS = "process"
RESULT = "k string, n bigint, total double"
STATE = "n bigint, total double"
N_KEYS = 20_000
WARM = 2  # micro-batches of each query that do not count


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
    """Return the same for Spark, by rows: its fastest operator for states in Python."""
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
    """Return each way to run the logic on a stream, with a folder for its ledger."""

    def ours(processor: Any) -> Callable[[DataFrame, Path], DataFrame]:
        return lambda df, folder: process(
            df, "k", processor, workers=workers, ledger=str(folder / "ledger")
        )

    return {
        OURS: ours(Totals()),
        "process, one key at a time": ours(TotalsOfKey()),
        "aggregate": lambda df, _: aggregate(
            df, "k", {"r": OwnTotals()}, workers=workers, mode="update"
        ).select("k", "r.*"),
        "transformWithState": lambda df, _: df.groupBy("k").transformWithState(
            spark_processor(), RESULT, "Update", "None"
        ),
    }


def make_records(n_batches: int, n_records: int) -> Iterator[pa.Table]:
    """Yield a table for each micro-batch; numbers are whole, so sums do not depend on order."""
    rng = np.random.default_rng(3)
    for _ in range(n_batches):
        keys = rng.integers(0, N_KEYS, n_records)
        values = rng.integers(0, 100, n_records) * 1.0
        yield pa.table({"k": [f"key-{key}" for key in keys], "v": values})


def keep(rows: dict[int, pa.Table], df: DataFrame, number: int) -> None:
    rows[number] = df.toArrow().sort_by("k")


def measure(spark: SparkSession, folder: Path, n_batches: int, workers: int) -> Iterator[Row]:
    """Run every way over all micro-batches; yield the seconds of each."""
    first: dict[int, pa.Table] = {}
    for name, way in track(ways(workers).items(), "ways"):
        rows: dict[int, pa.Table] = {}
        answered = way(file_stream(spark, "k string, v double", folder / "in"), folder / name)
        mode = "append" if name.startswith(OURS) else "update"
        query = run_to_end(answered, folder / name, mode, partial(keep, rows))
        took = {p["batchId"]: p["durationMs"]["addBatch"] / 1000 for p in query.recentProgress}
        first = first or rows
        for number in range(n_batches):
            if not rows[number].equals(first[number]):
                raise RuntimeError(f"{name} gives other rows in micro-batch {number}")
            if number >= WARM:
                yield {"way": name, "batch": number, "seconds": took[number]}


def table(records: Sequence[Row]) -> str:
    """Return one line per way to keep state; ratios are to `process` in the same run."""
    by_way = grouped(records, "way")
    took = {way: median(map(seconds, mine)) for way, mine in by_way.items()}
    rows = [
        [way, len(mine), f"{took[way]:.2f} s", f"{took[way] / took[OURS]:.2f}"]
        for way, mine in by_way.items()
    ]
    return markdown("way | micro-batches | median time | time / process", rows)


REPORT = Report("on_spark/stateful_operators.jsonl", {(BENCHMARKS, "stateful operators"): table})


def main(
    batches: int = option(8, "Micro-batches of each query."),
    records: int = option(100_000, "Records of a micro-batch."),
    workers: int = option(8, "Workers, and partitions of Spark's state."),
) -> None:
    """Measure all ways."""
    settings = {"spark.sql.shuffle.partitions": str(workers)}
    settings["spark.sql.streaming.numRecentProgressUpdates"] = "1000"
    with spark_and_folder("keyed state", settings=settings) as (spark, folder):
        write_files(folder / "in", make_records(batches, records), rows=10_000)
        REPORT.write(measure(spark, folder, batches, workers))


if __name__ == "__main__":
    typer.run(main)
