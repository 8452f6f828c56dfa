"""The state that a worker begins a batch with: files of versions, and what moves in and out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from skewless.aggregations.columns import is_list, list_lengths, plain
from skewless.arrays import Ints, Keys
from skewless.spark.state.versions import row_tables, state_tables
from skewless.spark.state.versions.column_room import FEWER_RECORDS, require_room
from skewless.spark.state.versions.state_tables import StateLayout, values_of
from skewless.spark.state.versions.version_files import Version, table_of


@dataclass(frozen=True, eq=False)
class Found:
    """The states of some keys, one row per key."""

    states: Any  # structs, null where there is no state
    bytes: Ints  # 0 where there is no state
    seen: Ints  # the latest time of a record


@dataclass(frozen=True, eq=False)
class HeldState:
    """Files from the bottom up, and above them the rows of keys that moved in."""

    layout: StateLayout
    files: Sequence[Version] = ()  # of one worker in one batch; none for a new worker
    names: Sequence[str] = ()
    arrived: pa.Table | None = None  # all rows hold a state
    n_held: int = 0
    n_bytes: int = 0
    n_moved: int = 0  # keys that moved in

    @cached_property
    def tables(self) -> list[pa.Table]:
        """The rows from the bottom up."""
        tables = [table_of(self.layout, file) for file in self.files]
        return [*tables, self.on_top] if self.on_top.num_rows else tables

    @property
    def on_top(self) -> pa.Table:
        """The rows that are in no file of this worker yet."""
        return self.layout.empty() if self.arrived is None else self.arrived

    def find(self, hashes: Keys, keys: Sequence[Any]) -> Found:
        """Return the states of these keys, without the items of growing lists."""
        layout = self.layout.heads
        names = layout.schema.names
        places = np.full(hashes.size, -1, np.int64)
        asked = np.arange(hashes.size)
        parts, n_rows = [], 0
        for table in reversed(self.tables):
            if not asked.size:
                break
            wanted = pa.array(asked)
            rows = layout.find(table, hashes[asked], [key.take(wanted) for key in keys])
            hit = rows >= 0
            n_hits = int(hit.sum())
            if n_hits:
                parts.append(table.select(names).take(pa.array(rows[hit])))
                places[asked[hit]] = np.arange(n_rows, n_rows + n_hits)
                n_rows += n_hits
                asked = asked[~hit]
        require_room(parts, "the states of a worker's keys", FEWER_RECORDS)
        whole = pa.concat_tables(parts).combine_chunks() if parts else layout.empty()
        indices = pa.array(places, mask=places < 0)
        states = layout.states(whole).take(indices)
        found = np.flatnonzero(places >= 0)
        weights, seen = np.zeros(hashes.size, np.int64), np.full(hashes.size, state_tables.NO_TIME)
        weights[found] = weight(layout, whole)[places[found]]
        seen[found] = state_tables.values_of(whole, state_tables.SEEN)[places[found]]
        return Found(states, weights, seen)

    def rows_of(self, choose: Callable[[pa.Table], state_tables.Flags] | None = None) -> pa.Table:
        """Return the rows with a state that `choose` names in each table, the newest of each key.

        `choose` must only use the hash, so that it names all rows of a key or none. None: all.
        """
        parts = self.tables
        if choose is not None:
            parts = [table.filter(pa.array(choose(table))) for table in parts]
        return self.layout.live(self.layout.newest(parts))

    def with_hashes(self, wanted: Keys) -> pa.Table:
        """Return the rows of all keys that have one of these hashes, which are ascending."""
        if not wanted.size:  # nearly every micro-batch moves no key from or to most workers
            return self.layout.empty()
        parts = []
        for table in self.tables:
            there = state_tables.hashes_of(table)
            first, end = (np.searchsorted(there, wanted, side) for side in ("left", "right"))
            parts.append(table.take(pa.array(state_tables.every_row(first, end))))
        return self.layout.live(self.layout.newest(parts))

    def ended(self, before: int | None, now: int | None) -> pa.Table:
        """Return the rows that end by `now`, without the items of growing lists.

        Rows that were held when the watermark was `before` were checked then. The file at the top
        was written later, so its rows have not been compared with a watermark yet.
        """
        layout = self.layout.heads
        if now is None:
            return layout.empty()
        parts = []
        n_old = len(self.files) - 1
        for number, table in enumerate(self.tables):
            if number < len(self.files) and self.files[number].about["soonest"] > now:
                continue
            until = state_tables.values_of(table, state_tables.UNTIL)
            due = until <= now
            if before is not None and number < n_old:
                due &= until > before
            rows = np.flatnonzero(due & values_of(table, state_tables.LIVE))
            rows = rows[self._is_newest(number, table, rows)]
            if rows.size:
                parts.append(table.select(layout.schema.names).take(pa.array(rows)))
        return layout.newest(parts)

    def sizes(self, hashes: Keys, keys: Sequence[Any]) -> Ints:
        """Estimate the bytes of all rows of these keys, by the number of rows in each table."""
        total = np.zeros(hashes.size)
        for table in self.tables:
            low, high = self.layout.ranges(table, hashes, keys)
            total += (high - low) * (table.nbytes / max(table.num_rows, 1))
        return total.astype(np.int64)

    def _is_newest(self, number: int, table: pa.Table, rows: Ints) -> state_tables.Flags:
        """Return which rows of a table no table above it replaces."""
        flags = np.ones(rows.size, np.bool_)
        if not rows.size:
            return flags
        at = pa.array(rows)
        if self.layout.rows:
            columns = [name for name in table.column_names if name not in self.layout.fields.names]
            own = table.select(columns).take(at)
            for above in self.tables[number + 1 :]:
                flags &= ~row_tables.replaced(self.layout, own, above)
            return flags
        keys = [state_tables.column_of(table, name).take(at) for name in self.layout.key_names]
        hashes = state_tables.hashes_of(table)[rows]
        for above in self.tables[number + 1 :]:
            flags &= self.layout.find(above, hashes, keys) < 0
        return flags


def weight(layout: StateLayout, table: pa.Table) -> Ints:
    """Return the bytes of each row that holds a state, keys included; 0 for the others.

    A head counts with its items.
    """
    if not table.num_rows:
        return np.empty(0, np.int64)
    if layout.growing:
        weights = np.zeros(table.num_rows, np.int64)
        at = np.flatnonzero(state_tables.values_of(table, state_tables.LIST) == state_tables.HEAD)
        heads = table.select(layout.heads.schema.names).take(pa.array(at))
        weights[at] = weight(layout.heads, heads)
        return weights
    names = [*layout.key_names, *layout.fields.names]
    weights = row_bytes([state_tables.column_of(table, name) for name in names])
    for name in layout.spans:
        weights = weights + state_tables.spans_of(layout.states(table), name)[2]
    return np.where(values_of(table, state_tables.LIVE), weights, 0)


def n_rows(layout: StateLayout, states: Any) -> int:
    """Return how many rows are held for these states: one each, and the items of growing lists."""
    found: int = len(states) - states.null_count
    for name in layout.spans:
        first, end, _ = state_tables.spans_of(states, name)
        found += int((end - first).sum())
    return found


_OFFSET = 4


def row_bytes(columns: Sequence[Any]) -> Ints:
    """Return the bytes of each row over all columns."""
    total = np.zeros(len(columns[0]) if columns else 0, np.int64)
    for column in columns:
        total += _bytes(plain(column))
    return total


def _bytes(column: Any) -> Ints:
    kind = column.type
    n_rows = len(column)
    if pt.is_struct(kind):
        return row_bytes(column.flatten()) if kind.num_fields else np.zeros(n_rows, np.int64)
    if pt.is_map(kind):
        column = column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
        kind = column.type
    if is_list(kind):
        lengths = list_lengths(column)
        inner = np.concatenate([[0], np.cumsum(_bytes(plain(pc.list_flatten(column))))])
        ends = np.cumsum(lengths)
        sums: Ints = inner[ends] - inner[ends - lengths] + _OFFSET
        return sums
    texts_of = (pt.is_string, pt.is_large_string, pt.is_binary, pt.is_large_binary)
    if any(is_kind(kind) for is_kind in texts_of):
        texts: Ints = pc.binary_length(column).cast(pa.int64()).fill_null(0).to_numpy()
        return texts + _OFFSET
    if pt.is_null(kind):
        return np.zeros(n_rows, np.int64)
    return np.full(n_rows, -(-kind.bit_width // 8), np.int64)
