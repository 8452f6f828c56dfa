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
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from skewless.aggregations import group
from skewless.aggregations.columns import in_order, is_list, plain
from skewless.aggregations.types import widens
from skewless.arrays import Ints, Keys
from skewless.spark.state.versions.column_room import require_room

Flags = NDArray[np.bool_]
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

    @cached_property
    def struct(self) -> pa.DataType:
        """The type of a state as one value."""
        return pa.struct([pa.field(f.name, f.type) for f in self.state])

    @cached_property
    def _empty(self) -> pa.Table:
        return self.schema.empty_table()

    def empty(self) -> pa.Table:
        """Return a table without rows."""
        return self._empty

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
            if kind != wanted and not (name in self.fields.names and widens(kind, wanted)):
                raise ValueError(f"column {name!r} of type {kind} is not expected")
            if table.column_names.count(name) > 1:
                raise ValueError(f"it has the column {name!r} by its old and its new name")
        if any(name not in table.column_names for name in self.key_names):
            raise ValueError("it lacks columns of the key")
        before = [self.item_names.index(n) for n in table.column_names if n in self.item_names]
        table = self._filled(table)  # before the first field grew, all rows were heads
        if before == list(range(len(before))):
            return table
        # Its lists had other numbers: the order of their columns.
        now = np.array([*before, HEAD], np.int8)[values_of(table, LIST)]
        return self.sorted(with_column(table, LIST, now))

    def _filled(self, table: pa.Table) -> pa.Table:
        """Return a table with the columns that it lacks: rows become heads, and fields are null."""
        n_rows, nothing = table.num_rows, pa.array(np.zeros(table.num_rows, np.int64))
        missing = {one.name: pa.nulls(n_rows, one.type) for one in self.schema}
        missing |= {LIST: pa.array(np.full(n_rows, HEAD, np.int8)), TIME: nothing, ROW: nothing}
        columns = [
            table.column(one.name).cast(one.type)
            if one.name in table.column_names
            else missing[one.name]
            for one in self.schema
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
        fields = [column_of(table, name) for name in self.fields.names]
        gone = pa.array(~values_of(table, LIVE))
        return pa.StructArray.from_arrays(fields, fields=list(self.struct), mask=gone)

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
        minor = [values_of(table, name) for name in ROWS] if self.has_items else []
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
        numbers, places = values_of(table, LIST), values_of(table, TIME)
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
        whole = pa.concat_tables([self._filled(heads), *items]).combine_chunks()
        return self.trimmed(self.sorted(whole))

    def ranges(self, table: pa.Table, hashes: Keys, keys: Sequence[Any]) -> tuple[Ints, Ints]:
        """Return for each key where its rows in a table begin and end."""
        there, columns = hashes_of(table), self.keys(table)
        low, high = (np.searchsorted(there, hashes, side) for side in ("left", "right"))
        some = np.flatnonzero(low < high)
        if not some.size:
            return low, high
        wanted, first, last = [key.take(pa.array(some)) for key in keys], low[some], high[some] - 1
        is_one = same([one.take(pa.array(first)) for one in columns], wanted)
        if (first < last).any():  # the rows of a key are consecutive
            is_one &= same([one.take(pa.array(last)) for one in columns], wanted)
        for at in some[~is_one].tolist():  # several keys with the same hash
            rows, own = pa.array(np.arange(low[at], high[at])), [key.slice(at, 1) for key in keys]
            repeated = [one.take(pa.array(np.zeros(len(rows), np.int64))) for one in own]
            is_own = same([one.take(rows) for one in columns], repeated)
            mine = np.flatnonzero(is_own) + low[at]
            low[at], high[at] = (mine[0], mine[-1] + 1) if mine.size else (low[at], low[at])
        return low, high

    def find(self, table: pa.Table, hashes: Keys, keys: Sequence[Any]) -> Ints:
        """Return for each key the row of `table` that has it, or −1; of several, the head."""
        low, high = self.ranges(table, hashes, keys)
        return np.where(low < high, low, -1)


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


def values_of(table: pa.Table, name: str) -> Any:
    """Return one column of numbers or flags as a numpy array."""
    return column_of(table, name).to_numpy(zero_copy_only=False)


def hashes_of(table: pa.Table) -> Keys:
    """Return the hashes of a table's keys, ascending."""
    hashes: Keys = values_of(table, HASH)
    return hashes


def with_column(table: pa.Table, name: str, values: Any) -> pa.Table:
    """Return a table in which one column has other values."""
    place = table.schema.get_field_index(name)
    field = table.schema.field(place)
    return table.set_column(place, field, pa.array(values, field.type))


def spans_of(states: Any, name: str) -> list[Ints]:
    """Return where a growing list of each state begins and ends, and its bytes; 0 for a null."""
    spans = states.flatten()[states.type.get_field_index(name)]
    return [part.fill_null(0).to_numpy(zero_copy_only=False) for part in spans.flatten()]


def forgotten(layout: StateLayout, table: pa.Table) -> pa.Table:
    """Return rows for the same keys without a state; items do not count without their head."""
    if layout.growing:
        table = table.filter(pa.array(values_of(table, LIST) == HEAD))
    n_rows = table.num_rows
    gone = {one.name: pa.nulls(n_rows, one.type) for one in layout.fields}
    gone[LIVE] = pa.array(np.zeros(n_rows, np.bool_))
    gone |= {UNTIL: pa.array(np.full(n_rows, FOREVER)), SEEN: pa.array(np.full(n_rows, NO_TIME))}
    columns = [gone.get(name, table.column(name)) for name in layout.schema.names]
    return pa.table(columns, schema=layout.schema)


def every_row(first: Ints, end: Ints) -> Ints:
    """Return the rows of all ranges, one range after the other."""
    counts = end - first
    starts = np.repeat(first - (np.cumsum(counts) - counts), counts)
    rows: Ints = starts + np.arange(starts.size)
    return rows


def same(a: Sequence[Any], b: Sequence[Any]) -> Flags:
    """Return for each row whether `a` and `b` hold the same key; a null equals a null."""
    found = np.ones(len(a[0]), np.bool_)
    for one, other in zip(a, b, strict=True):
        found &= _equal(one, other)
    return found


def _equal(a: Any, b: Any) -> Flags:
    # Arrow's own comparison means another thing for NaN, and there is none for nested types.
    if pt.is_floating(a.type) or pt.is_nested(a.type) or pt.is_null(a.type):
        codes = group([pa.concat_arrays([a, b])]).codes
        same_codes: Flags = codes[: len(a)] == codes[len(a) :]
        return same_codes
    equal = pc.equal(a, b)
    if a.null_count or b.null_count:
        equal = pc.or_(equal.fill_null(False), pc.and_(pc.is_null(a), pc.is_null(b)))
    flags: Flags = equal.to_numpy(zero_copy_only=False)
    return flags


def key_order(hashes: Keys, keys: Sequence[Any], *minor: Ints) -> tuple[Ints, Flags]:
    """Return the order by hash, then by key, then by `minor`, and which rows begin another key.

    Rows that are equal in all of these stay in order. Of two keys with the same hash, the first is
    the one whose row comes first by hash and `minor`.
    """
    order = in_order(hashes, *minor)
    new = np.ones(order.size, np.bool_)
    found = hashes[order]
    alike = np.flatnonzero(found[1:] == found[:-1])
    if alike.size:
        left, right = pa.array(order[alike]), pa.array(order[alike + 1])
        equal = same([key.take(left) for key in keys], [key.take(right) for key in keys])
        new[alike + 1] = ~equal
        if not equal.all():  # rows of two keys with the same hash may be mixed
            codes = group([key.take(pa.array(order)) for key in keys]).codes
            by_key = np.lexsort((codes, found))
            order, codes = order[by_key], codes[by_key]
            new[1:] = codes[1:] != codes[:-1]
    return order, new
