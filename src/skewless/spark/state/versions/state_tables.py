"""Tables of states: one row per key, in the order of the keys' hashes. Arrow only, no files.

Columns: the hash of the key, whether the row holds a state (if not, the key has none any more), the
time at which it ends, the latest time of the key's records, the key's columns, and the fields of
the state. If a state is lists of items that are held for a span of time, a key has a row for each
item instead, in the order of list, time and number. If only some fields are lists that grow, a key
has a row for its state, the head, and after it a row for each item. The head has the places at
which each list begins and ends: other items do not count any more.
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
#: Further columns if a key has several rows: the number of the list, the item's time, or its place
#: in a list that grows, and a number that no other item of the list has at this time.
LIST, TIME, ROW = "list", "time", "row"
ROWS = {LIST: pa.int8(), TIME: pa.int64(), ROW: pa.int64()}
_KEY, _FIELD, _ITEM = "key.", "state.", "item."
#: In place of the number of a list: the row is the head of a key.
HEAD = -1
#: What a head has of a list that grows: the places of its first item and after its last one, and
#: the bytes of all of them.
SPAN = pa.struct([("first", pa.int64()), ("end", pa.int64()), ("bytes", pa.int64())])
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
    rows: bool = False  # whether the items of all lists are rows of their own, and there is no head
    growing: tuple[str, ...] = ()  # lists whose items are rows of their own, after the head
    spans: tuple[str, ...] = ()  # of heads: fields that are the spans of such lists

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of a table of states."""
        ours = OURS | (ROWS if self.has_items else {})
        key = [pa.field(_KEY + one.name, one.type) for one in self.key]
        return pa.schema([*(pa.field(*pair) for pair in ours.items()), *key, *self.fields])

    @property
    def has_items(self) -> bool:
        """Whether a key may have several rows."""
        return self.rows or bool(self.growing)

    @cached_property
    def items(self) -> pa.Schema:
        """The lists whose items are rows of their own, with the types of their items."""
        lists = [one for one in self.state if is_list(one.type)] if self.rows else []
        lists += [self.state.field(name) for name in self.growing]
        return pa.schema([pa.field(one.name, one.type.value_type) for one in lists])

    @cached_property
    def heads(self) -> StateLayout:
        """The layout of rows without items: one for each key."""
        if not self.growing:
            return self
        fields = [
            pa.field(one.name, SPAN if one.name in self.growing else one.type) for one in self.state
        ]
        return StateLayout(self.key, pa.schema(fields), self.renamed, spans=self.growing)

    @cached_property
    def fields(self) -> pa.Schema:
        """What a row holds, as columns of a table: fields of a state, or an item of a list."""
        own = [] if self.rows else [pa.field(_FIELD + f.name, f.type) for f in self.heads.state]
        return pa.schema([*own, *(pa.field(_ITEM + f.name, f.type) for f in self.items)])

    @property
    def item_names(self) -> list[str]:
        """The columns of items in a table of states."""
        return [_ITEM + name for name in self.items.names]

    @property
    def key_names(self) -> list[str]:
        """The key's columns in a table of states."""
        return [_KEY + name for name in self.key.names]

    @property
    def field_names(self) -> list[str]:
        """The state's columns in a table of states."""
        names: list[str] = self.fields.names
        return names

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
        pairs = self.renamed.items()
        new = {kind + old: kind + name for old, name in pairs for kind in (_FIELD, _ITEM)}
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
        # Before the first field grew, all rows were heads.
        heads = _places_of_heads(table.num_rows) if self.growing else {}
        columns = [
            table.column(name).cast(kind)
            if name in table.column_names
            else pa.chunked_array([heads.get(name, pa.nulls(table.num_rows, kind))])
            for name, kind in kinds.items()
        ]
        return self._renumbered(pa.table(columns, schema=self.schema), table.column_names)

    def _renumbered(self, table: pa.Table, before: list[str]) -> pa.Table:
        """Return a table whose lists had other numbers: the order of their columns `before`."""
        numbers = [self.item_names.index(name) for name in before if name in self.item_names]
        if numbers == list(range(len(numbers))):
            return table
        now = np.array([*numbers, HEAD], np.int8)[column_of(table, LIST).to_numpy()]
        place = table.schema.get_field_index(LIST)
        return self.sorted(table.set_column(place, self.schema.field(place), pa.array(now)))

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
        minor = [column_of(table, name).to_numpy() for name in ROWS] if self.has_items else []
        order, new = key_order(hashes_of(table), self.keys(table), *minor)
        for one in minor:
            new[1:] |= np.diff(one[order]) != 0
        return table.take(pa.array(order[new]))

    def live(self, table: pa.Table) -> pa.Table:
        """Return the rows that hold a state, and the items that count."""
        table = self.trimmed(table)
        return table.filter(table.column(LIVE))

    def trimmed(self, table: pa.Table) -> pa.Table:
        """Return a table without the items that, by the heads in it, do not count any more."""
        if not self.growing:
            return table
        numbers, places = (column_of(table, name).to_numpy() for name in (LIST, TIME))
        stays = numbers == HEAD
        owners, heads = np.cumsum(stays) - 1, table.filter(pa.array(stays))
        states = self.heads.states(heads)
        for number, name in enumerate(self.growing):
            first, end, _ = spans_of(states, name)
            mine = np.flatnonzero(numbers == number)
            own = owners[mine]
            stays[mine] = (first[own] <= places[mine]) & (places[mine] < end[own])
        return table if stays.all() else table.filter(pa.array(stays))

    def with_items(self, heads: pa.Table, items: Sequence[pa.Table]) -> pa.Table:
        """Return the rows of some keys: their heads, and items of them that count."""
        if not self.growing:
            return heads
        n_rows = heads.num_rows
        ours = _places_of_heads(n_rows)
        columns = [
            heads.column(one.name)
            if one.name in heads.column_names
            else ours.get(one.name, pa.nulls(n_rows, one.type))
            for one in self.schema
        ]
        whole = pa.concat_tables([pa.table(columns, schema=self.schema), *items])
        return self.trimmed(self.sorted(whole.combine_chunks()))

    def find(self, table: pa.Table, hashes: Keys, keys: Sequence[Any]) -> Ints:
        """Return for each key the row of `table` that has it, or −1; of several, the head."""
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


def _places_of_heads(n_rows: int) -> dict[str, Any]:
    """Return the columns that rows with items have more, for heads."""
    nothing = pa.array(np.zeros(n_rows, np.int64))
    return {LIST: pa.array(np.full(n_rows, HEAD, np.int8)), TIME: nothing, ROW: nothing}


def layout_of(schema: pa.Schema) -> StateLayout:
    """Return the layout of a table of states that was read from a file."""

    def fields(prefix: str) -> pa.Schema:
        found = [one for one in schema if one.name.startswith(prefix)]
        return pa.schema([pa.field(f.name.removeprefix(prefix), f.type) for f in found])

    state, lists = fields(_FIELD), [pa.field(f.name, pa.list_(f.type)) for f in fields(_ITEM)]
    if len(state):
        grown = {one.name: one for one in lists}
        whole = pa.schema([grown.get(one.name, one) for one in state])
        return StateLayout(fields(_KEY), whole, growing=tuple(grown))
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


def spans_of(states: Any, name: str) -> list[Ints]:
    """Return where a growing list of each state begins and ends, and its bytes; 0 for a null."""
    spans = states.flatten()[states.type.get_field_index(name)]
    return [part.fill_null(0).to_numpy(zero_copy_only=False) for part in spans.flatten()]


def forgotten(layout: StateLayout, table: pa.Table) -> pa.Table:
    """Return rows for the same keys without a state; items do not count without their head."""
    if layout.growing:
        table = table.filter(pa.array(column_of(table, LIST).to_numpy() == HEAD))
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
