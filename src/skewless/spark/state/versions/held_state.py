"""The state that a worker begins a batch with: files of versions, and what moves in and out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.arrays import Ints, Keys
from skewless.spark.state.versions.column_room import FEWER_RECORDS, require_room
from skewless.spark.state.versions.row_bytes import row_bytes
from skewless.spark.state.versions.same_keys import Flags
from skewless.spark.state.versions.state_tables import (
    LIVE,
    NO_TIME,
    StateLayout,
    column_of,
    find,
    hashes_of,
    live_of,
    newest,
    seen_of,
    until_of,
    with_hashes,
)
from skewless.spark.state.versions.version_files import Version, table_of


@dataclass(frozen=True, eq=False)
class Found:
    """The states of some keys, one row per key."""

    states: Any  # structs, null where there is no state
    bytes: Ints  # 0 where there is no state
    seen: Ints  # the latest time of a record

    @property
    def is_held(self) -> Flags:
        """Which keys have a state."""
        flags: Flags = self.states.is_valid().to_numpy(zero_copy_only=False)
        return flags


@dataclass(frozen=True, eq=False)
class HeldState:
    """Files from the bottom up, and above them the rows of keys that moved in.

    Parameters
    ----------
    files, names
        The files of one worker in one batch; none for a new worker.
    arrived
        Rows of keys that move in: all hold a state.
    """

    layout: StateLayout
    files: Sequence[Version] = ()
    names: Sequence[str] = ()
    arrived: pa.Table | None = None
    tables: list[pa.Table] = field(init=False)

    def __post_init__(self) -> None:
        """Put the arrived rows on top."""
        tables = [table_of(self.layout, file) for file in self.files]
        if self.arrived is not None and self.arrived.num_rows:
            tables.append(self.arrived)
        object.__setattr__(self, "tables", tables)

    def find(self, hashes: Keys, keys: Sequence[Any]) -> Found:
        """Return the states of these keys."""
        layout = self.layout
        places = np.full(hashes.size, -1, np.int64)
        asked = np.arange(hashes.size)
        parts, n_rows = [], 0
        for table in reversed(self.tables):
            if not asked.size:
                break
            wanted = pa.array(asked)
            rows = find(layout, table, hashes[asked], [key.take(wanted) for key in keys])
            hit = rows >= 0
            n_hits = int(hit.sum())
            if n_hits:
                parts.append(table.take(pa.array(rows[hit])))
                places[asked[hit]] = np.arange(n_rows, n_rows + n_hits)
                n_rows += n_hits
                asked = asked[~hit]
        require_room(parts, "the states of a worker's keys", FEWER_RECORDS)
        whole = pa.concat_tables(parts).combine_chunks() if parts else layout.empty()
        indices = pa.array(places, mask=places < 0)
        states = layout.states(whole).take(indices)
        found = np.flatnonzero(places >= 0)
        weights, seen = np.zeros(hashes.size, np.int64), np.full(hashes.size, NO_TIME)
        weights[found] = weight(layout, whole)[places[found]]
        seen[found] = seen_of(whole)[places[found]]
        return Found(states, weights, seen)

    def rows_of(self, choose: Callable[[pa.Table], Ints]) -> pa.Table:
        """Return the rows with a state that `choose` names in each table, the newest of each key.

        `choose` must only use the hash, so that it names all rows of a key or none.
        """
        parts = [table.take(pa.array(choose(table))) for table in self.tables]
        table = newest(self.layout, parts)
        return table.filter(table.column(LIVE))

    def with_hashes(self, wanted: Keys) -> pa.Table:
        """Return the rows of all keys that have one of these hashes, which are ascending."""
        return self.rows_of(lambda table: with_hashes(table, wanted))

    def ended(self, before: int | None, now: int | None) -> pa.Table:
        """Return the rows that end by `now`.

        Rows that were held when the watermark was `before` were checked then. The file at the top
        was written later, so its rows have not been compared with a watermark yet.
        """
        if now is None:
            return self.layout.empty()
        parts = []
        n_old = len(self.files) - 1
        for number, table in enumerate(self.tables):
            if number < len(self.files) and self.files[number].about["soonest"] > now:
                continue
            until = until_of(table)
            due = until <= now
            if before is not None and number < n_old:
                due &= until > before
            rows = np.flatnonzero(due & live_of(table))
            rows = rows[self._is_newest(number, table, rows)]
            if rows.size:
                parts.append(table.take(pa.array(rows)))
        return newest(self.layout, parts)

    def _is_newest(self, number: int, table: pa.Table, rows: Ints) -> Flags:
        """Return which rows of a table no table above it replaces."""
        flags = np.ones(rows.size, np.bool_)
        if not rows.size:
            return flags
        at = pa.array(rows)
        keys = [column_of(table, name).take(at) for name in self.layout.key_names]
        hashes = hashes_of(table)[rows]
        for above in self.tables[number + 1 :]:
            flags &= find(self.layout, above, hashes, keys) < 0
        return flags


def weight(layout: StateLayout, table: pa.Table) -> Ints:
    """Return the bytes of each row that holds a state, keys included; 0 for the others."""
    names = [*layout.key_names, *layout.field_names]
    weights = row_bytes([column_of(table, name) for name in names])
    return np.where(live_of(table), weights, 0)
