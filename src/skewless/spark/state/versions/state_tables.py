"""Tables of states: one row per key, in the order of the keys' hashes. Arrow only, no files.

Columns: the hash of the key, whether the row holds a state (if not, the key has none any more), the
time at which it ends, the latest time of the key's records, the key's columns, and the fields of
the state. If a state is lists of items that are held for a span of time, a key has a row for each
item instead, in the order of list, time and number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.aggregations.columns import is_list, plain
from skewless.aggregations.types import widens
from skewless.arrays import Ints, Keys
from skewless.spark.state.versions.column_room import require_room
from skewless.spark.state.versions.same_keys import Flags, key_order, same

HASH, LIVE, UNTIL, SEEN = "hash", "live", "until", "seen"
#: The columns that come first, and their types.
OURS = {HASH: pa.uint64(), LIVE: pa.bool_(), UNTIL: pa.int64(), SEEN: pa.int64()}
#: Further columns if a key has several rows: the number of the list, the item's time, and a number
#: that no other item of the list has at this time.
LIST, TIME, ROW = "list", "time", "row"
ROWS = {LIST: pa.int8(), TIME: pa.int64(), ROW: pa.int64()}
_KEY, _FIELD, _ITEM = "key.", "state.", "item."
#: In microseconds: the end of a state that has none.
FOREVER = np.iinfo(np.int64).max
#: In microseconds: the time of a record that has none.
NO_TIME = np.iinfo(np.int64).min


@dataclass(frozen=True)
class StateLayout:
    """What keys and states look like: Arrow types by the user's names."""

    key: pa.Schema
    state: pa.Schema
    renamed: Mapping[str, str] = field(default_factory=dict)  # old names of fields to new ones
    rows: bool = False  # whether the items of lists are rows of their own

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of a table of states."""
        ours = OURS | (ROWS if self.rows else {})
        names = [*ours, *self.key_names, *self.field_names]
        kinds = [*ours.values(), *self.key.types, *self.fields.types]
        return pa.schema(list(zip(names, kinds, strict=True)))

    @cached_property
    def fields(self) -> pa.Schema:
        """What a row holds: the fields of a state, or an item of one of its lists."""
        if not self.rows:
            return self.state
        items = [one for one in self.state if is_list(one.type)]
        return pa.schema([pa.field(one.name, one.type.value_type) for one in items])

    @property
    def key_names(self) -> list[str]:
        """The key's columns in a table of states."""
        return [_KEY + name for name in self.key.names]

    @property
    def field_names(self) -> list[str]:
        """The state's columns in a table of states."""
        prefix = _ITEM if self.rows else _FIELD
        return [prefix + name for name in self.fields.names]

    @cached_property
    def struct(self) -> pa.DataType:
        """The type of a state as one value."""
        return pa.struct([pa.field(f.name, f.type) for f in self.state])

    def empty(self) -> pa.Table:
        """Return a table without rows."""
        return self.schema.empty_table()

    def fitted(self, table: pa.Table) -> pa.Table:
        """Return a table with all fields of this layout, which may be renamed or wider now.

        Fields that it lacks are null.
        """
        if table.schema.equals(self.schema):
            return table
        new = {_FIELD + old: _FIELD + name for old, name in self.renamed.items()}
        table = table.rename_columns([new.get(name, name) for name in table.column_names])
        kinds = dict(zip(self.schema.names, self.schema.types, strict=True))
        for name, kind in zip(table.column_names, table.schema.types, strict=True):
            wanted = kinds.get(name, pa.null())
            if kind != wanted and not (name in self.field_names and widens(kind, wanted)):
                raise ValueError(f"column {name!r} of type {kind} is not expected")
            if table.column_names.count(name) > 1:
                raise ValueError(f"it has the column {name!r} by its old and its new name")
        if any(name not in table.column_names for name in self.key_names):
            raise ValueError("it lacks columns of the key")
        columns = [
            table.column(name).cast(kind)
            if name in table.column_names
            else pa.chunked_array([pa.nulls(table.num_rows, kind)])
            for name, kind in kinds.items()
        ]
        return pa.table(columns, schema=self.schema)

    def table(
        self, hashes: Keys, keys: Sequence[Any], states: Any, until: Ints, seen: Ints
    ) -> pa.Table:
        """Return the table of these keys, one row each; a null state becomes a row without one."""
        ours = [pa.array(hashes), states.is_valid(), pa.array(until), pa.array(seen)]
        others = [plain(column) for column in (*keys, *states.flatten())]
        return pa.table([*ours, *others], schema=self.schema)

    def states(self, table: pa.Table) -> Any:
        """Return the states of a table as structs, null where there is none."""
        fields = [column_of(table, name) for name in self.field_names]
        live = column_of(table, LIVE).to_numpy(zero_copy_only=False)
        return pa.StructArray.from_arrays(fields, fields=list(self.struct), mask=pa.array(~live))

    def keys(self, table: pa.Table) -> list[Any]:
        """Return the key's columns of a table."""
        return [column_of(table, name) for name in self.key_names]

    def newest(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Return the rows of all tables, for each key the one of the last table that has it.

        If a key has several rows, the same for each of them.
        """
        parts = [table for table in tables if table.num_rows]
        if len(parts) < 2:
            return parts[0] if parts else self.empty()
        require_room(parts, "the states of a worker", "use more workers, or smaller states")
        # The newest first: sorting keeps that order among the rows of a key.
        return self.sorted(pa.concat_tables(reversed(parts)).combine_chunks())

    def sorted(self, table: pa.Table) -> pa.Table:
        """Return the rows in order; of rows that are the same, only the first one."""
        minor = [column_of(table, name).to_numpy() for name in ROWS] if self.rows else []
        order, new = key_order(hashes_of(table), self.keys(table), *minor)
        for one in minor:
            new[1:] |= np.diff(one[order]) != 0
        return table.take(pa.array(order[new]))

    def find(self, table: pa.Table, hashes: Keys, keys: Sequence[Any]) -> Ints:
        """Return for each key the row of `table` that has it, or −1."""
        there = hashes_of(table)
        rows = np.full(hashes.size, -1, np.int64)
        if not there.size or not hashes.size:
            return rows
        first = np.searchsorted(there, hashes, "left")
        # Nearly always one row per hash; each round looks at the next row of the same hash.
        asked = np.arange(hashes.size)
        columns = self.keys(table)
        while asked.size:
            asked = asked[first[asked] < there.size]
            asked = asked[there[first[asked]] == hashes[asked]]
            at, wanted = pa.array(first[asked]), pa.array(asked)
            found = same([one.take(at) for one in columns], [key.take(wanted) for key in keys])
            rows[asked[found]] = first[asked[found]]
            asked = asked[~found]
            first[asked] += 1
        return rows


def layout_of(schema: pa.Schema) -> StateLayout:
    """Return the layout of a table of states that was read from a file."""

    def fields(prefix: str) -> pa.Schema:
        found = [one for one in schema if one.name.startswith(prefix)]
        return pa.schema([pa.field(f.name.removeprefix(prefix), f.type) for f in found])

    if ROW not in schema.names:
        return StateLayout(fields(_KEY), fields(_FIELD))
    lists = [pa.field(one.name, pa.list_(one.type)) for one in fields(_ITEM)]
    end = pa.field("expires", pa.timestamp("us", "UTC"))
    return StateLayout(fields(_KEY), pa.schema([*lists, end]), rows=True)


def later(times: Ints, span: int) -> Ints:
    """Return times that are `span` later, at most the last possible time."""
    return np.where(times > FOREVER - span, FOREVER, times + span)


def earlier(times: Ints, span: int) -> Ints:
    """Return times that are `span` earlier, at least the first possible time."""
    return np.where(times < NO_TIME + span, NO_TIME, times - span)


def micros_of(column: Any) -> Ints:
    """Return times in microseconds since 1970, and the least number for a null."""
    column = plain(column)
    whole = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    times: Ints = whole.fill_null(NO_TIME).to_numpy(zero_copy_only=False)
    return times


def column_of(table: pa.Table, name: str) -> Any:
    """Return one column as one array, without a copy if it has a single chunk."""
    column = table.column(name)
    return plain(column.chunk(0) if column.num_chunks == 1 else column)


def hashes_of(table: pa.Table) -> Keys:
    """Return the hashes of a table's keys, ascending."""
    hashes: Keys = column_of(table, HASH).to_numpy()
    return hashes


def live_of(table: pa.Table) -> Flags:
    """Return which rows hold a state."""
    flags: Flags = column_of(table, LIVE).to_numpy(zero_copy_only=False)
    return flags


def until_of(table: pa.Table) -> Ints:
    """Return the times until which states are held."""
    until: Ints = column_of(table, UNTIL).to_numpy()
    return until


def seen_of(table: pa.Table) -> Ints:
    """Return the latest times of the keys' records."""
    seen: Ints = column_of(table, SEEN).to_numpy()
    return seen


def forgotten(layout: StateLayout, table: pa.Table) -> pa.Table:
    """Return rows for the same keys without a state."""
    n_rows, columns = table.num_rows, []
    gone = {LIVE: np.zeros(n_rows, np.bool_)}
    gone |= {UNTIL: np.full(n_rows, FOREVER), SEEN: np.full(n_rows, NO_TIME)}
    for one in layout.schema:
        if one.name in gone:
            columns.append(pa.array(gone[one.name], one.type))
        elif one.name in layout.field_names:
            columns.append(pa.nulls(n_rows, one.type))
        else:
            columns.append(table.column(one.name))
    return pa.table(columns, schema=layout.schema)


def with_hashes(table: pa.Table, wanted: Keys) -> Ints:
    """Return the rows whose hash is among `wanted`, which are ascending."""
    there = hashes_of(table)
    first = np.searchsorted(there, wanted, "left")
    counts = np.searchsorted(there, wanted, "right") - first
    total = int(counts.sum())
    starts = np.repeat(first - (np.cumsum(counts) - counts), counts)
    return starts + np.arange(total)
