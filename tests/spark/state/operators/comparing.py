"""Test support: streams of files, run one file after the other, by our operators and by Spark's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row

from spark.streams import read_stream, write_file

Streams = Callable[[list[DataFrame]], DataFrame]


def settled(
    spark: Any, folder: Path, ddl: str, batches: Sequence[Sequence[pa.Table]], query: Streams
) -> list[Row]:
    """Return all rows of a query over streams that get one table each, time after time.

    Spark's own operators run a micro-batch without data after each one with data, so that all that
    is over by then has left the state before the next records come. Ours do that with the records.
    """
    n_streams = len(batches[0])
    for number in range(n_streams):
        (folder / f"in-{number}").mkdir(parents=True)
    streams = [read_stream(spark, folder / f"in-{number}", ddl) for number in range(n_streams)]
    rows: list[Row] = []

    def keep(df: DataFrame, _: int) -> None:
        rows.extend(df.collect())

    writer = query(streams).writeStream.outputMode("append").foreachBatch(keep)
    running = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    try:
        for number, tables in enumerate(batches):
            for place, table in enumerate(tables):
                write_file(folder / f"in-{place}", number, table)
            running.processAllAvailable()
    finally:
        running.stop()
    return rows


def in_text_order(rows: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return rows in an order that does not depend on how they came."""
    return sorted(map(tuple, rows), key=repr)
