"""What a worker does if the items of states are rows of their own: it writes only new ones.

The processor gets the items of a key that may matter, and returns them with the new ones after
them. So neither what is read nor what is written depends on how many rows a key holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skewless.arrays import Ints
from skewless.spark.state.grouping import Grouped
from skewless.spark.state.outcomes import Worked
from skewless.spark.state.versions import row_tables, state_tables
from skewless.spark.state.versions.held_state import HeldState, weight
from skewless.spark.state.versions.row_tables import OWNER, Span, table_of_items
from skewless.spark.state.versions.state_tables import hashes_of, values_of

if TYPE_CHECKING:
    from skewless.spark.state.worker_step import Work

#: Numbers of rows: the micro-batch that wrote them, and their place among the new ones of the key.
_OF_BATCH = 1 << 32
#: Rows that expiry keeps are written again, with numbers that no new row has.
_KEPT = 1 << 31


def rows_worked(
    work: Work, group: Grouped, held: HeldState, due: pa.Table, now: int | None, batch: int
) -> Worked:
    """Return the outcome of a batch; `due` are the rows that end by `now`."""
    layout, n_keys = work.layout, group.hashes.size
    ended, gone, spent = _ended(work, due, now, batch)
    results, written = [ended], [layout.empty()]
    counts, costs = np.diff(group.starts), np.empty(0)
    codes = np.repeat(np.arange(n_keys), counts)
    amount = counts
    if n_keys:
        tables = [*held.tables, gone]
        given = row_tables.near(layout, tables, group.hashes, group.keys, _spans(work, group))
        owners = values_of(given, OWNER)
        states = row_tables.in_lists(layout, given, owners, n_keys)
        keyed = work.keyed(group, states, now)
        rows, states, update, seconds = work.call(keyed, work.shape.processor.update)
        results.append(rows)
        written = _written(work, group, given, states, batch)
        amount = counts if update.work is None else np.maximum(counts, update.work)
        costs, spent = work.costs(update, amount, seconds), spent + seconds
    changed = layout.newest([gone, *written])
    new = layout.newest([part.filter(pa.array(_is_of(part, batch))) for part in (gone, *written)])
    sizes = weight(layout, new)
    return Worked(
        pa.concat_tables(results),
        changed,
        counts,
        amount,
        costs,
        spent,
        int(due.num_rows > 0),
        n_held=new.num_rows - due.num_rows,
        n_bytes=int(sizes.sum()) - int(weight(layout, due).sum()),
        hashes=group.hashes,
        keys=group.keys,
        n_second=np.bincount(codes[work.are_second(group.records)], minlength=n_keys),
        sizes=held.sizes(group.hashes, group.keys) + _by_hash(group, new, sizes),
    )


def _ended(
    work: Work, due: pa.Table, now: int | None, batch: int
) -> tuple[pa.Table, pa.Table, float]:
    """Return the results for rows that end, the rows that say so, and the seconds."""
    layout, span = work.layout, work.shape.span
    if not due.num_rows or span is None:
        return work.shape.result_arrow.empty_table(), layout.empty(), 0.0
    due, codes, heads = row_tables.by_key(layout, due)
    keys = [key.take(pa.array(heads)) for key in layout.keys(due)]
    states = row_tables.in_lists(layout, due, codes, heads.size)
    hashes, parts = hashes_of(due)[heads], [state_tables.forgotten(layout, due)]
    keyed = work.without_records(hashes, keys, states, now)
    results, states, _, seconds = work.call(keyed, work.shape.processor.on_expiry)
    for number, (items, owners) in enumerate(row_tables.items_of(layout, states)):
        own = [key.take(pa.array(owners)) for key in keys]
        ids = batch * _OF_BATCH + _KEPT + row_tables.places_of(owners)
        until = state_tables.later(items.flatten()[0].to_numpy(), span)
        parts.append(table_of_items(layout, hashes[owners], own, number, items, ids, until))
    return results, layout.newest(parts), seconds


def _spans(work: Work, group: Grouped) -> list[Span]:
    """Return for each list and key from when to when its rows may match a record.

    A record matches rows of the other stream only.
    """
    n_keys, span = group.hashes.size, work.shape.span or 0
    codes = np.repeat(np.arange(n_keys), np.diff(group.starts))
    is_second = work.are_second(group.records)
    found = []
    for asks in (is_second, ~is_second):
        begin, end = np.full(n_keys, state_tables.FOREVER), np.full(n_keys, state_tables.NO_TIME)
        if group.times is None:
            begin[codes[asks]], end[codes[asks]] = state_tables.NO_TIME, state_tables.FOREVER
        else:
            asks = asks & (group.times != state_tables.NO_TIME)
            np.minimum.at(begin, codes[asks], state_tables.earlier(group.times[asks], span))
            np.maximum.at(end, codes[asks], state_tables.later(group.times[asks], span))
        found.append((begin, end))
    return found


def _written(
    work: Work, group: Grouped, given: pa.Table, states: Any, batch: int
) -> list[pa.Table]:
    """Return the rows that `update` has added, and those that it has changed.

    It returns the given items of a key first, in their order. Of these only `met` changes.
    """
    layout, parts = work.layout, []
    owners, numbers = values_of(given, OWNER), values_of(given, state_tables.LIST)
    for number, (items, codes) in enumerate(row_tables.items_of(layout, states)):
        mine = np.flatnonzero(numbers == number)
        mine = mine[np.argsort(owners[mine], kind="stable")]
        n_given = np.bincount(owners[mine], minlength=group.hashes.size)
        places = row_tables.places_of(codes)
        is_new = places >= n_given[codes]
        ids = batch * _OF_BATCH + places - n_given[codes]
        ids[~is_new] = values_of(given, state_tables.ROW)[mine]
        before = state_tables.column_of(given, layout.fields.names[number]).take(pa.array(mine))
        times, met = items.flatten()[0].to_numpy(), _met(items)
        is_new[~is_new] = met[~is_new] != _met(before)
        rows = pa.array(np.flatnonzero(is_new))
        at = codes[is_new]
        keys = [key.take(pa.array(at)) for key in group.keys]
        until = state_tables.later(times[is_new], work.shape.span or 0)
        own = (items.take(rows), ids[is_new], until)
        parts.append(table_of_items(layout, group.hashes[at], keys, number, *own))
    return parts


def _met(items: Any) -> Any:
    return items.flatten()[1].to_numpy(zero_copy_only=False).astype(np.bool_)


def _is_of(table: pa.Table, batch: int) -> Any:
    """Return which rows this micro-batch has added: not changed ones, or those without an item."""
    ids = values_of(table, state_tables.ROW)
    return values_of(table, state_tables.LIVE) & (ids >= batch * _OF_BATCH)


def _by_hash(group: Grouped, rows: pa.Table, sizes: Ints) -> Ints:
    """Return the bytes of rows for each key of a group."""
    found = np.zeros(group.hashes.size, np.int64)
    at = np.searchsorted(group.hashes, hashes_of(rows))
    at = np.minimum(at, found.size - 1)
    if found.size:
        is_own = group.hashes[at] == hashes_of(rows)
        np.add.at(found, at[is_own], sizes[is_own])
    return found
