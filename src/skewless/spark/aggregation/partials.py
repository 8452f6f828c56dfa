"""Partial results: tables of keys and state columns, made of records and merged. Arrow only.

Every table here has the same columns in the same order: the pane and the latest time if there are
windows, the key's columns, then the state columns of one aggregation after the other. A block is
such a table of many keys as one binary value, so that Spark moves few, large ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skewless.aggregations import Aggregation, Groups, group
from skewless.arrays import Ints
from skewless.keys import hash_keys
from skewless.spark.columns import internal

PANE = internal("pane")
TIME = internal("time")
SLOT = internal("slot")
BLOCK = internal("block")
_VERSION = b"\x01"
#: The number of slots is fixed, because it is part of the format of the state: cores and shuffle
#: partitions differ from one session to the next. Each slot costs about 1 ms per micro-batch, and
#: merging runs on at most this many partitions. A state with another number is refused.
N_SLOTS = 64
FORMAT = f"format 2, {N_SLOTS} slots"


def state_names(result: str, n_states: int) -> list[str]:
    """Return the names of the state columns of the aggregation called `result`."""
    return [internal(f"{result}_{number}") for number in range(n_states)]


@dataclass(frozen=True)
class Partials:
    """How records become partial results, and how these are merged.

    `schema` is that of the records: the time if there are windows, the key, then the inputs.
    """

    schema: pa.Schema
    key: tuple[str, ...]
    aggregations: dict[str, Aggregation]
    pane: int | None = None  # the length of a pane in microseconds
    offset: int = 0

    @cached_property
    def table_schema(self) -> pa.Schema:
        """The schema of partial results."""
        fields = []
        if self.pane is not None:
            fields = [pa.field(PANE, pa.int64()), pa.field(TIME, self.schema.field(TIME).type)]
        fields += [self.schema.field(name) for name in self.key]
        return pa.schema([*fields, *(one for states in self.states.values() for one in states)])

    @cached_property
    def states(self) -> dict[str, list[pa.Field]]:
        """The state columns of each result."""
        found = {}
        for result, aggregation in self.aggregations.items():
            kinds = aggregation.state_types(self.input_types(aggregation))
            names = state_names(result, len(kinds))
            found[result] = [pa.field(*pair) for pair in zip(names, kinds, strict=True)]
        return found

    @property
    def merges(self) -> bool:
        """Whether partial results of one key can be merged, for all aggregations."""
        return all(aggregation.merges for aggregation in self.aggregations.values())

    @property
    def grouping(self) -> list[str]:
        """The columns that identify a partial result."""
        return [*([PANE] if self.pane is not None else []), *self.key]

    def update(self, records: pa.Table) -> pa.Table:
        """Return the partial results of records; as in Spark, one without a time is ignored."""
        if self.pane is not None:
            if records.column(TIME).null_count:
                records = records.filter(pc.is_valid(records.column(TIME)))
            times = records.column(TIME)
            micros = times.cast(pa.timestamp("us", times.type.tz), safe=False).cast(pa.int64())
            # Not (micros - offset) // pane: the difference does not fit for times near the limits.
            numbers, rest = np.divmod(micros.to_numpy(), self.pane)
            panes = numbers - (rest < self.offset % self.pane) - self.offset // self.pane
            records = records.append_column(PANE, pa.array(panes))
        columns = {name: _whole(records.column(name)) for name in records.column_names}
        groups = group([columns[name] for name in self.grouping])
        arrays = self._leading(columns, groups)
        for aggregation in self.aggregations.values():
            inputs = [columns[name] for name in aggregation.inputs]
            arrays += aggregation.update(inputs, groups.codes, groups.n_groups)
        return _cast(arrays, self.table_schema)

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Return one row for every pane and key of the tables."""
        table = pa.concat_tables(tables)
        columns = {name: _whole(table.column(name)) for name in table.column_names}
        groups = group([columns[name] for name in self.grouping])
        if groups.n_groups == table.num_rows:
            return table
        arrays = self._leading(columns, groups)
        for result, aggregation in self.aggregations.items():
            states = [columns[field.name] for field in self.states[result]]
            arrays += aggregation.merge(states, groups.codes, groups.n_groups)
        return _cast(arrays, self.table_schema)

    def finish(self, table: pa.Table) -> pa.Table:
        """Return the key's columns and the results; an aggregator never finishes no keys."""
        if not table.num_rows:
            return self.result_schema.empty_table()
        columns = {name: _whole(table.column(name)) for name in table.column_names}
        arrays = [columns[name] for name in self.key]
        for result, aggregation in self.aggregations.items():
            states = [columns[field.name] for field in self.states[result]]
            arrays.append(aggregation.finish(states))
        return _cast(arrays, self.result_schema)

    @cached_property
    def result_schema(self) -> pa.Schema:
        """The schema of results: the key, then one column per aggregation."""
        fields = [self.schema.field(name) for name in self.key]
        for result, aggregation in self.aggregations.items():
            fields.append(pa.field(result, aggregation.result_type(self.input_types(aggregation))))
        return pa.schema(fields)

    def _leading(self, columns: dict[str, Any], groups: Groups) -> list[Any]:
        """Return the columns before the states: the pane and its latest time, and the key."""
        first = pa.array(groups.first)
        keys = [columns[name].take(first) for name in self.key]
        if self.pane is None:
            return keys
        times = columns[TIME]  # no time is null, and no group is empty
        latest = np.full(groups.n_groups, np.iinfo(np.int64).min)
        np.maximum.at(latest, groups.codes, times.cast(pa.int64()).to_numpy())
        return [columns[PANE].take(first), pa.array(latest).cast(times.type), *keys]

    def input_types(self, aggregation: Aggregation) -> list[pa.DataType]:
        """Return the types of the columns that an aggregation reads."""
        return [self.schema.field(name).type for name in aggregation.inputs]


def _whole(column: Any) -> Any:
    """Return one array of a chunked one."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def _cast(arrays: list[Any], schema: pa.Schema) -> pa.Table:
    kept = [
        array if array.type == field.type else array.cast(field.type)
        for array, field in zip(arrays, schema, strict=True)
    ]
    return pa.Table.from_arrays(kept, schema=schema)


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
