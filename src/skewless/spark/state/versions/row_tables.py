"""Tables with several rows per key, each an item of a list with its time. Arrow and numpy only.

Rows are in the order of hash, key, list, time and number. So the rows of a key near some time are
found without reading its others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.aggregations.columns import exploded, lists
from skewless.arrays import Ints, Keys
from skewless.spark.state.versions import state_tables
from skewless.spark.state.versions.state_tables import StateLayout, hashes_of, values_of

#: A column that is added to what is found: the number of the key that was asked for.
OWNER = "owner"
#: From when to when rows are wanted, one of each per key; nothing if the end comes first.
Span = tuple[Ints, Ints]


def place(
    table: pa.Table, low: Ints, high: Ints, wanted: Sequence[Any], *, after: bool = False
) -> Ints:
    """Return for each range where its rows begin that are not before `wanted`, or `after` it.

    `wanted` has values of the first columns of `ROWS`, one for each range.
    """
    columns = [values_of(table, name) for name, _ in zip(state_tables.ROWS, wanted, strict=False)]
    low, high = low.copy(), high.copy()
    while True:
        open_ = np.flatnonzero(low < high)
        if not open_.size:
            return low
        middle = (low[open_] + high[open_]) >> 1
        is_before = np.full(open_.size, after)
        for column, value in zip(reversed(columns), reversed(wanted), strict=True):
            there, asked = column[middle], np.broadcast_to(value, low.shape)[open_]
            is_before = (there < asked) | ((there == asked) & is_before)
        low[open_[is_before]] = middle[is_before] + 1
        high[open_[~is_before]] = middle[~is_before]


def replaced(layout: StateLayout, rows: pa.Table, above: pa.Table) -> Any:
    """Return which rows another table has too."""
    low, high = layout.ranges(above, hashes_of(rows), layout.keys(rows))
    wanted = [values_of(rows, name) for name in state_tables.ROWS]
    return place(above, low, high, wanted) < place(above, low, high, wanted, after=True)


def near(
    layout: StateLayout,
    tables: Sequence[pa.Table],
    hashes: Keys,
    keys: Sequence[Any],
    spans: Sequence[Span],
) -> pa.Table:
    """Return the rows of some keys within a span of time for each list, with their owners.

    `tables` are from the bottom up: a row of a later one replaces the same row of the others.
    """
    parts = [layout.empty().append_column(OWNER, pa.array([], pa.int64()))]
    for table in tables:
        low, high = layout.ranges(table, hashes, keys)
        for number, (begin, end) in enumerate(spans):
            asked = np.flatnonzero((begin <= end) & (low < high))
            within = table, low[asked], high[asked]
            first = place(*within, (number, begin[asked]))
            last = place(*within, (number, end[asked]), after=True)
            owners = pa.array(np.repeat(asked, last - first))
            rows = table.take(pa.array(state_tables.every_row(first, last)))
            parts.append(rows.append_column(OWNER, owners))
    found = layout.newest(parts) if any(part.num_rows for part in parts) else parts[0]
    return found.filter(found.column(state_tables.LIVE)).combine_chunks()


def table_of_items(
    layout: StateLayout,
    hashes: Keys,
    keys: Sequence[Any],
    number: int,
    items: Any,
    ids: Ints,
    until: Ints,
    times: Ints | None = None,
) -> pa.Table:
    """Return rows for items of one list; all arrays have one value per item.

    Without `times`, the first field of an item is its time.
    """
    n_rows = len(items)
    if times is None:
        times = items.flatten()[0].to_numpy(zero_copy_only=False)
    ours = [hashes, np.ones(n_rows, np.bool_), until, np.full(n_rows, state_tables.NO_TIME)]
    ours += [np.full(n_rows, number, np.int8), times, ids]
    columns = [*map(pa.array, ours), *keys]
    for one in layout.fields:
        is_own = one.name == layout.item_names[number]
        columns.append(items.cast(one.type) if is_own else pa.nulls(n_rows, one.type))
    return layout.sorted(pa.table(columns, schema=layout.schema))


def in_lists(layout: StateLayout, table: pa.Table, codes: Ints, n_keys: int) -> Any:
    """Return the states of keys, with the items of rows; `codes` has the key of each row."""
    numbers, fields = values_of(table, state_tables.LIST), []
    names = dict(zip(layout.items.names, layout.item_names, strict=True))
    of_heads: list[Any] = []
    if layout.growing:
        heads = table.filter(pa.array(numbers == state_tables.HEAD))
        of_heads = layout.heads.states(heads).flatten()
    for at, one in enumerate(layout.state):
        if one.name in names:
            mine = np.flatnonzero(numbers == layout.items.names.index(one.name))
            items = state_tables.column_of(table, names[one.name]).take(pa.array(mine))
            fields.append(lists(items, codes[mine], n_keys).cast(one.type))
        elif of_heads:
            fields.append(of_heads[at])
        else:  # `expires`
            soonest = np.full(n_keys, state_tables.FOREVER)
            np.minimum.at(soonest, codes, values_of(table, state_tables.UNTIL))
            fields.append(pa.array(soonest).cast(one.type))
    return pa.StructArray.from_arrays(fields, fields=list(layout.struct))


def items_of(layout: StateLayout, states: Any) -> Iterator[tuple[Any, Ints]]:
    """Yield for each list the items of all states, and the number of the state of each."""
    for name in layout.items.names:
        column = states.flatten()[states.type.get_field_index(name)]
        yield exploded(column, np.arange(len(states), dtype=np.int64))


def places_of(codes: Ints) -> Ints:
    """Return the place of each item among those of its key, from 0; items are in order of keys."""
    counts = np.bincount(codes)
    places: Ints = np.arange(codes.size) - (np.cumsum(counts) - counts)[codes]
    return places


def by_key(layout: StateLayout, table: pa.Table) -> tuple[pa.Table, Ints, Ints]:
    """Return the rows by key, the number of the key of each, and the first row of each key."""
    order, new = state_tables.key_order(hashes_of(table), layout.keys(table))
    return table.take(pa.array(order)), np.cumsum(new) - 1, np.flatnonzero(new)


def states_by_key(layout: StateLayout, table: pa.Table) -> tuple[pa.Table, Any, Ints]:
    """Return a row for each key, the states of the keys, and the number of the key of each row."""
    if not layout.has_items:
        return table, layout.states(table), np.arange(table.num_rows)
    whole, codes, heads = by_key(layout, table)
    return whole.take(pa.array(heads)), in_lists(layout, whole, codes, heads.size), codes
