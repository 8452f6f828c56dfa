"""Merges partial results for which Spark has no aggregate: in Python, a block of keys at a time.

Per-key state in Python costs a round trip per key. Here a group of Spark is a slot, or a window of
a slot, and its state is one block with all its keys. Array code merges the block, and Spark moves
few, large values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from skewless.spark.aggregation.partials import (
    BLOCK,
    PANE,
    SLOT,
    TIME,
    Partials,
    by_key,
    from_block,
    to_block,
)
from skewless.spark.aggregation.state_layout import layout_text, layout_type, require_layout
from skewless.spark.aggregation.windows import WATERMARK, WINDOW, Lateness, Window, microseconds
from skewless.spark.arrow_types import from_arrow_schema
from skewless.spark.columns import internal

_START = internal("start")
_END = internal("end")
_LAYOUT = internal("layout")
_LAYOUT_TYPE = internal("layout_type")


def merge_blocks(
    blocks: DataFrame,
    partials: Partials,
    window: Window | None,
    late: Lateness,
    mode: str,
    layout: Mapping[str, str],
) -> DataFrame:
    """Return the results of a stream of blocks; a state with another `layout` is refused."""
    grouping = [SLOT]
    timeout = GroupStateTimeout.NoTimeout
    if window is not None:
        if late.is_given:
            blocks = late.applied(blocks, TIME)
            timeout = GroupStateTimeout.EventTimeTimeout
        blocks = blocks.select(window.of(F.col(TIME)).alias(WINDOW), SLOT, BLOCK)
        noted = blocks.schema[WINDOW].metadata
        # Times become numbers, because Spark hands all columns to Python, whose dates end with the
        # year 9999. The end of the window keeps the watermark: by it, Spark drops late blocks as it
        # would drop late records. Either all records of a pane are late or none.
        blocks = blocks.select(
            SLOT,
            BLOCK,
            _micros(blocks, WINDOW, "start").alias(_START),
            _micros(blocks, WINDOW, "end").alias(
                _END, metadata={WATERMARK: noted[WATERMARK]} if WATERMARK in noted else {}
            ),
        )
        grouping = [SLOT, _START]
    merger = BlockMerger(by_key(partials), window, late.is_given, mode, layout_text(layout))

    def merge(
        key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        yield from merger.merge(key, frames, state)

    # If the writer has another output mode, Spark's message shows the plan with this name.
    merge.__name__ = f"aggregate with mode={mode!r}, which must be the writer's outputMode too"
    merged = blocks.groupBy(*grouping).applyInPandasWithState(
        merge,
        f"`{_START}` bigint, `{BLOCK}` binary",
        T.StructType(
            [
                T.StructField(BLOCK, T.BinaryType()),
                T.StructField(_LAYOUT, T.StringType()),
                T.StructField(_LAYOUT_TYPE, layout_type(layout)),
            ]
        ),
        mode,
        timeout,
    )
    return _unpacked(merged, partials, window)


def merge_rows(
    rows: DataFrame, partials: Partials, window: Window | None, *, are_whole: bool = False
) -> DataFrame:
    """Return the results of a batch of partial results; those of whole keys need no shuffle."""
    keys: list[Column] = [F.col(f"`{name}`") for name in partials.key]
    merger = by_key(partials)
    grouping = keys
    if window is not None:
        rows = rows.withColumn(WINDOW, window.of(F.col(TIME)))
        rows = rows.withColumn(PANE, _micros(rows, WINDOW, "start")).drop(WINDOW)
        grouping = [F.col(PANE), *keys]
        merger = partials  # by window and key: the window takes the place of the pane
    schema = merger.table_schema

    def merge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tables = [pa.Table.from_batches([batch]).select(schema.names) for batch in batches]
        if not tables:
            return
        merged = merger.merge([table.cast(schema) for table in tables])
        results = merger.finish(merged)
        starts = merged.column(PANE) if window is not None else None
        yield from _with_window(results, starts, partials, window).to_batches()

    together = rows if are_whole else rows.repartition(*grouping)
    return together.mapInArrow(merge, from_arrow_schema(_result_schema(partials, window)))


@dataclass(frozen=True)
class BlockMerger:
    """Keeps one block of state per group; returns what changed, or what is complete."""

    partials: Partials
    window: Window | None
    closes: bool  # a watermark passes the windows, which are then complete and forgotten
    mode: str
    layout: str  # what the state is made of; stored with every block of it

    def merge(
        self, key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        """Merge new blocks into the group's state; yield blocks of results."""
        schema = self.partials.table_schema
        start = end_ms = 0
        if self.window is not None:
            start = int(key[1])
            end_ms = -(-(start + microseconds(self.window.size)) // 1000)
        kept = schema.empty_table()
        if state.exists:
            block, layout, _ = state.get
            require_layout(layout, self.layout)
            kept = from_block(block, schema)
        if state.hasTimedOut:
            state.remove()
            if self.mode == "append":
                yield self._results(start, kept)
            return
        tables = [from_block(block, schema) for frame in frames for block in frame[BLOCK]]
        touched = self.partials.merge(tables)
        # Groups are numbered as they appear, so the keys that changed come first.
        merged = self.partials.merge([touched, kept])
        # This includes records of a window that the watermark has passed since they came: Spark
        # counts them, and closes the window right away.
        complete = self.closes and end_ms <= state.getCurrentWatermarkMs()
        if complete:
            if state.exists:
                state.remove()
        else:
            state.update((to_block(merged), self.layout, None))
            if self.closes:
                # Spark calls when the watermark exceeds this: at the end of the window.
                state.setTimeoutTimestamp(end_ms - 1)
        if self.mode == "update":
            yield self._results(start, merged.slice(0, touched.num_rows))
        elif complete:
            yield self._results(start, merged)

    def _results(self, start: int, table: pa.Table) -> pd.DataFrame:
        return pd.DataFrame({_START: [start], BLOCK: [to_block(self.partials.finish(table))]})


def _micros(df: DataFrame, struct: str, field: str) -> Column:
    """Return a time as microseconds since 1970, in no zone or in UTC."""
    kind = df.schema[struct].dataType[field].dataType  # type: ignore[index]
    if isinstance(kind, T.TimestampNTZType):
        return F.expr(
            f"timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {struct}.{field})"
        )
    return F.unix_micros(f"{struct}.{field}")


def _result_schema(partials: Partials, window: Window | None) -> pa.Schema:
    results = by_key(partials).result_schema
    if window is None:
        return results
    time = partials.table_schema.field(TIME).type
    field = pa.field(WINDOW, pa.struct([pa.field("start", time), pa.field("end", time)]))
    return pa.schema([field, *results])


def _with_window(results: pa.Table, starts: Any, partials: Partials, window: Any) -> pa.Table:
    schema = _result_schema(partials, window)
    if window is None:
        return results.cast(schema)
    kind = schema.field(WINDOW).type.field("start").type
    begins = starts.combine_chunks() if isinstance(starts, pa.ChunkedArray) else starts
    try:
        ends = pa.compute.add_checked(begins, microseconds(window.size))
    except pa.ArrowInvalid:
        raise OverflowError(
            f"window: the time of a record is so near the last possible time that its window of "
            f"{window.size} ends after it"
        ) from None
    windows = pa.StructArray.from_arrays(
        [begins.cast(kind), ends.cast(kind)], fields=list(schema.field(WINDOW).type)
    )
    return pa.Table.from_arrays([windows, *results.columns], schema=schema)


def _unpacked(blocks: DataFrame, partials: Partials, window: Window | None) -> DataFrame:
    """Return the results that are in blocks, as rows."""
    results = by_key(partials).result_schema

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for start, block in zip(batch.column(0), batch.column(1), strict=True):
                table = from_block(block.as_py(), results)
                starts = pa.array([start.as_py()] * table.num_rows, pa.int64())
                yield from _with_window(table, starts, partials, window).to_batches()

    return blocks.mapInArrow(unpack, from_arrow_schema(_result_schema(partials, window)))
