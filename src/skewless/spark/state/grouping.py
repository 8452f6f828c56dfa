"""Records of a partition, put in order: by key, and for each key in source order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.aggregations.ordering import order_keys_and_nulls
from skewless.arrays import Ints, Keys
from skewless.spark.state.versions import state_tables
from skewless.spark.state.versions.column_room import FEWER_RECORDS, require_room
from skewless.spark.state.versions.state_tables import values_of


@dataclass(frozen=True)
class SentColumns:
    """What a partition gets: internal columns, computed columns of the key, and the records."""

    schema: pa.Schema  # of all columns that are sent, by their names on the way
    names: tuple[str, ...]  # the user's, of the records' columns, which are the last ones
    key: tuple[int, ...]  # positions
    key_names: tuple[str, ...]
    order: tuple[int, ...] = ()  # positions of what orders the records of a key, before the source
    time: int | None = None  # position

    @property
    def key_schema(self) -> pa.Schema:
        """The key's columns by the user's names."""
        kinds = [self.schema.types[place] for place in self.key]
        return pa.schema(list(zip(self.key_names, kinds, strict=True)))


@dataclass(frozen=True, eq=False)
class Grouped:
    """Records in order, with one row per key."""

    hashes: Keys  # of each key, ascending
    keys: list[Any]
    starts: Ints
    records: pa.Table
    times: Ints | None  # of each record, in microseconds; the least number for a null

    def latest(self) -> Ints:
        """Return the latest time of each key's records."""
        if self.times is None or not self.hashes.size:
            return np.full(self.hashes.size, state_tables.NO_TIME)
        latest: Ints = np.maximum.reduceat(self.times, self.starts[:-1])
        return latest


def received(batches: Iterable[pa.RecordBatch], sent: SentColumns) -> pa.Table:
    """Return all records of a partition as one table, with internal names."""
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    if not tables:
        return sent.schema.empty_table()
    shown = [*sent.schema.names[: -len(sent.names)], *sent.names]
    named = [table.rename_columns(shown) for table in tables]
    require_room(named, "the records of a worker in a micro-batch", FEWER_RECORDS)
    whole = pa.concat_tables([table.rename_columns(sent.schema.names) for table in tables])
    return whole.cast(sent.schema).combine_chunks()


def only_records(table: pa.Table, sent: SentColumns) -> pa.Table:
    """Return the records' columns of what was sent, by the user's names."""
    last = range(table.num_columns - len(sent.names), table.num_columns)
    return table.select(list(last)).rename_columns(list(sent.names))


def grouped(table: pa.Table, times: Ints | None, sent: SentColumns) -> Grouped:
    """Return the records by key: by hash, then the columns of `order`, then source order.

    Records of one source partition arrive in order; those of different partitions arrive in any
    order.
    """
    names = table.column_names
    hashes: Keys = values_of(table, names[0]).view(np.uint64)
    sources = values_of(table, names[2]).astype(np.int64)
    keys = [state_tables.column_of(table, names[place]) for place in sent.key]
    minor: list[Ints] = []
    for place in sent.order:  # as Spark does, nulls first
        numbers, valid = order_keys_and_nulls(state_tables.column_of(table, names[place]))
        minor += [valid.astype(np.int64), numbers]
    order, new = state_tables.key_order(hashes, keys, *minor, sources)
    first = np.flatnonzero(new)
    heads = pa.array(order[first])
    return Grouped(
        hashes[order[first]],
        [key.take(heads) for key in keys],
        np.append(first, order.size),
        only_records(table, sent).take(pa.array(order)).combine_chunks(),
        None if times is None else times[order],
    )
