"""Measure keyed state against Spark's own operators; write the raw records and the table.

The same stream and the same logic: a count and a sum for every key, one result row for each key of
a micro-batch. Each way runs as a query of its own, and its rows are compared with those of the
first. Spark's `transformWithState` needs the package `protobuf`; without it, its rows are left out.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import typer
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.state import GroupStateTimeout
from rich.progress import track

from benchmarks.tables import STATEFUL_OPERATORS, write_stateful_operators
from skewless.apps.public.spark_state import ROCKSDB, missing_for_transform
from skewless.experiments.on_spark import stateful_operators
from skewless.experiments.tables import write_records
from skewless.spark import KeyProcessor, Processor, Update, process, session

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
    """The same, one key at a time."""

    state_schema = STATE
    result_schema = RESULT

    def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
        n, total = (state["n"], state["total"]) if state else (0, 0.0)
        for record in records:
            n, total = n + 1, total + record["v"]
        new = {"n": n, "total": total}
        return [new], new


def spark_processors() -> tuple[Any, Any]:
    """Return the same for Spark: with pandas frames, and with rows."""
    from pyspark.sql.streaming import StatefulProcessor

    class Pandas(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.totals = handle.getValueState("totals", STATE)

        def handleInputRows(self, key: Any, rows: Any, timer_values: Any) -> Iterator[Any]:  # noqa: N802
            n, total = self.totals.get() if self.totals.exists() else (0, 0.0)
            for frame in rows:
                n, total = n + len(frame), total + float(frame["v"].sum())
            self.totals.update((n, total))
            yield pd.DataFrame({"k": [key[0]], "n": [n], "total": [total]})

        def close(self) -> None:
            return None

    class Rows(Pandas):
        def handleInputRows(self, key: Any, rows: Any, timer_values: Any) -> Iterator[Any]:  # noqa: N802
            n, total = self.totals.get() if self.totals.exists() else (0, 0.0)
            for row in rows:
                n, total = n + 1, total + row["v"]
            self.totals.update((n, total))
            yield Row(k=key[0], n=n, total=total)

    return Pandas(), Rows()


def with_group_state(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[Any]:
    n, total = state.get if state.exists else (0, 0.0)
    for frame in frames:
        n, total = n + len(frame), total + float(frame["v"].sum())
    state.update((n, total))
    yield pd.DataFrame({"k": [key[0]], "n": [n], "total": [total]})


def ways(workers: int) -> dict[str, Callable[[DataFrame, Path], DataFrame]]:
    """Return each way to run the logic on a stream, with a folder for its ledger."""

    def ours(processor: Any) -> Callable[[DataFrame, Path], DataFrame]:
        return lambda df, folder: process(
            df, "k", processor, workers=workers, ledger=str(folder / "ledger")
        )

    found: dict[str, Callable[[DataFrame, Path], DataFrame]] = {
        stateful_operators.OURS: ours(Totals()),
        "process, one key at a time": ours(TotalsOfKey()),
        "applyInPandasWithState": lambda df, _: df.groupBy("k").applyInPandasWithState(
            with_group_state, RESULT, STATE, "update", GroupStateTimeout.NoTimeout
        ),
    }
    missing = missing_for_transform()
    if missing is not None:
        print(f"transformWithState is left out: {missing}")
        return found
    pandas, rows = spark_processors()
    found["transformWithState"] = lambda df, _: df.groupBy("k").transformWithState(
        rows, RESULT, "Update", "None"
    )
    found["transformWithStateInPandas"] = lambda df, _: df.groupBy("k").transformWithStateInPandas(
        pandas, RESULT, "Update", "None"
    )
    return found


def make_records(folder: Path, n_batches: int, n_records: int) -> None:
    """Write a file for each micro-batch; numbers are whole, so that sums do not depend on order."""
    folder.mkdir()
    rng = np.random.default_rng(3)
    for number in range(n_batches):
        keys = rng.integers(0, N_KEYS, n_records)
        table = {"k": [f"key-{key}" for key in keys], "v": rng.integers(0, 100, n_records) * 1.0}
        pq.write_table(pa.table(table), folder / f"{number:03}.parquet", row_group_size=10_000)


def measure(spark: SparkSession, folder: Path, n_batches: int, workers: int) -> Iterator[Any]:
    """Run every way over all micro-batches; yield the seconds of each."""
    first: dict[int, pa.Table] = {}
    for name, way in track(ways(workers).items(), "ways"):
        place = folder / name
        place.mkdir()
        stream = spark.readStream.schema("k string, v double").option("maxFilesPerTrigger", 1)
        rows: dict[int, pa.Table] = {}
        mode = "append" if name.startswith(stateful_operators.OURS) else "update"
        writer = (
            way(stream.parquet(str(folder / "in")), place)
            .writeStream.outputMode(mode)
            .foreachBatch(lambda df, number, rows=rows: rows.update({number: df.toArrow()}))
            .option("checkpointLocation", str(place / "checkpoint"))
        )
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = {p["batchId"]: p["durationMs"]["addBatch"] / 1000 for p in query.recentProgress}
        rows = {number: table.sort_by("k") for number, table in rows.items()}
        first = first or rows
        for number in range(n_batches):
            if not rows[number].equals(first[number]):
                raise RuntimeError(f"{name} gives other rows in micro-batch {number}")
            if number >= WARM:
                yield {"way": name, "batch": number, "seconds": seconds[number]}


def main(
    batches: Annotated[int, typer.Option(help="Micro-batches of each query.")] = 8,
    records: Annotated[int, typer.Option(help="Records of a micro-batch.")] = 100_000,
    workers: Annotated[int, typer.Option(help="Workers, and partitions of Spark's state.")] = 8,
) -> None:
    """Measure all ways."""
    settings = {
        "spark.sql.shuffle.partitions": str(workers),
        **ROCKSDB,
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.log.level": "ERROR",
    }
    spark = session("keyed state", master="local[2]", settings=settings)
    with tempfile.TemporaryDirectory() as folder:
        make_records(Path(folder) / "in", batches, records)
        write_records(STATEFUL_OPERATORS, measure(spark, Path(folder), batches, workers))
    spark.stop()
    print(f"raw records: {STATEFUL_OPERATORS}")
    write_stateful_operators()


if __name__ == "__main__":
    typer.run(main)
