"""Blocks: partial results of many keys as one binary value, so that Spark moves few, large ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.arrays import Ints
from skewless.keys import hash_keys
from skewless.spark.aggregation.partials import PANE, TIME, Partials
from skewless.spark.columns import internal

SLOT = internal("slot")
BLOCK = internal("block")
_VERSION = b"\x01"
#: The number of slots is fixed, because it is part of the format of the state: cores and shuffle
#: partitions differ from one session to the next. Each slot costs about 1 ms per micro-batch, and
#: merging runs on at most this many partitions. A state with another number is refused.
N_SLOTS = 64
FORMAT = f"format 2, {N_SLOTS} slots"


def to_block(table: pa.Table) -> bytes:
    """Return the table as bytes: Arrow's own form of a record batch, without the schema."""
    batch = table.combine_chunks().to_batches()
    rows = batch[0] if batch else pa.RecordBatch.from_pylist([], schema=table.schema)
    return _VERSION + bytes(rows.serialize().to_pybytes())


def from_block(block: bytes, schema: pa.Schema) -> pa.Table:
    """Return the table that `to_block` made into bytes."""
    if block[:1] != _VERSION:
        raise ValueError(
            f"a block of state has version {block[:1]!r}; this skewless reads {_VERSION!r}"
        )
    return pa.Table.from_batches([pa.ipc.read_record_batch(pa.py_buffer(block[1:]), schema)])


@dataclass(frozen=True)
class Packing:
    """Cuts partial results into blocks: one for every pane and slot."""

    partials: Partials
    slots: Ints

    @property
    def schema(self) -> pa.Schema:
        """The schema of rows with blocks."""
        fields = [pa.field(SLOT, pa.int32()), pa.field(BLOCK, pa.binary())]
        if self.partials.pane is not None:
            fields.insert(0, self.partials.table_schema.field(TIME))
        return pa.schema(fields)

    def pack(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield one row per block."""
        if not table.num_rows:
            return
        keys = hash_keys(*[table.column(name) for name in self.partials.key])
        slots = self.slots[(keys % np.uint64(self.slots.size)).astype(np.int64)].astype(np.int32)
        has_panes = self.partials.pane is not None
        panes = table.column(PANE).to_numpy() if has_panes else np.zeros(slots.size, np.int64)
        # Sorted by content, not by arrival: a retried task sends the same bytes.
        order = np.lexsort((keys, slots, panes))
        slots, panes = slots[order], panes[order]
        is_first = np.ones(order.size, np.bool_)
        is_first[1:] = (np.diff(slots) != 0) | (np.diff(panes) != 0)
        begins = np.flatnonzero(is_first)
        contents = table.select(by_key(self.partials).table_schema.names).take(pa.array(order))
        sizes = np.diff(begins, append=order.size)
        places = zip(begins.tolist(), sizes.tolist(), strict=True)
        blocks = [to_block(contents.slice(begin, size)) for begin, size in places]
        columns: list[Any] = [pa.array(slots[begins]), pa.array(blocks, pa.binary())]
        if has_panes:
            # As numbers: Python's dates end with the year 9999, Spark's do not.
            kind = self.schema.field(TIME).type
            times = table.column(TIME).cast(pa.int64()).to_numpy()[order]
            columns.insert(0, pa.array(np.maximum.reduceat(times, begins)).cast(kind))
        yield pa.RecordBatch.from_arrays(columns, schema=self.schema)


def by_key(partials: Partials) -> Partials:
    """Build what merges partial results of one pane or window: by key alone."""
    return replace(partials, pane=None, offset=0)
