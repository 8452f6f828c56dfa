"""Load per worker, and on which workers each key is, over a sliding window of records.

The window is `n_slides` slides of `slide` records: the one being filled and the full ones before
it. When the next record finds the slide full, the oldest slide expires and its place is filled
next (Dalton, section 3.3). All places are allocated at the start.

A slide is a list of entries: one per distinct pair (key, worker) in it, with its number of
records. The pair table knows the latest entry of each pair, and that is all that expiry needs:
the pair has left the window when the slide of its latest entry has. (The paper counts per pair
the slides that hold it; one number, written when the pair enters a slide, says the same.) A
record costs O(1), and so does each entry that expires, of which a record makes at most one.

A pair is not known by a hash of key and worker, but by the row of its key and the worker, 32 bits
each: no two pairs ever share a code, so nothing is approximate. The row must be found anyway, it
holds |X(k)|, the number of workers that have the key.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless._jit import kernel
from skewless.arrays import I32, I64, U64, Ints, SmallInts, Words
from skewless.kernels.key_table import (
    ABSENT,
    KeyTable,
    find_slot,
    get,
    key_table,
    remove_slot,
)

# Positions in `counters`.
TOTAL = 0  # records in the window
RECORDS = 1  # of them in the slide being filled
PLACE = 2  # of the slide being filled, 0 … n_slides − 1
N_FREE = 3  # rows on the stack of free ones
SLIDE = 4  # records that fill a slide
STRIDE = 5  # entries that a place has room for

_SHIFT_32 = np.uint64(32)


class WindowedLoad(NamedTuple):
    """`loads` and `counters[TOTAL]` are for reading; the rest through the functions below."""

    loads: Ints  # per worker: its records in the window
    counters: Ints
    n_entries: SmallInts  # per place
    entry_rows: SmallInts
    entry_workers: SmallInts
    entry_counts: SmallInts  # records of the pair in this slide
    pairs: KeyTable  # row and worker -> latest entry
    rows: KeyTable  # key -> row; empty when fragmentation is switched off
    row_keys: Words
    row_workers: SmallInts  # |X(k)|
    free_rows: SmallInts  # a stack


def windowed_load(
    n_workers: int, slide: int, n_slides: int, *, fragmentation: bool = True
) -> WindowedLoad:
    """Return an empty window of `n_slides` slides of `slide` records.

    Without `fragmentation` it knows loads only and ignores the keys: all records belong to row 0,
    so that a slide has one entry per worker, and memory does not grow with the slide.
    """
    for name, value in (("n_workers", n_workers), ("slide", slide), ("n_slides", n_slides)):
        if value < 1:
            raise ValueError(f"windowed_load: {name} must be at least 1, not {value}")
    stride = slide if fragmentation else min(slide, n_workers)
    n_records = stride * n_slides
    if n_records >= 2**31:
        raise ValueError(
            f"windowed_load: slide · n_slides must be below 2**31, not {slide} · {n_slides}"
        )
    n_pairs = n_records if fragmentation else min(n_records, n_workers)
    n_rows = n_records if fragmentation else 0
    counters = np.zeros(6, np.int64)
    counters[[N_FREE, SLIDE, STRIDE]] = n_rows, slide, stride
    return WindowedLoad(
        loads=np.zeros(n_workers, np.int64),
        counters=counters,
        n_entries=np.zeros(n_slides, np.int32),
        entry_rows=np.zeros(n_records, np.int32),
        entry_workers=np.zeros(n_records, np.int32),
        entry_counts=np.zeros(n_records, np.int32),
        pairs=key_table(n_pairs),
        rows=key_table(n_rows),
        row_keys=np.zeros(n_rows, np.uint64),
        row_workers=np.zeros(n_rows, np.int32),
        free_rows=np.arange(n_rows - 1, -1, -1, dtype=np.int32),
    )


@kernel
def expire(window: WindowedLoad) -> bool:
    """Begin the next slide if the present one is full; return whether it was.

    `add` does so by itself. Call it before a decision that looks at the window, so that the
    decision does not count a slide that the record to be placed will push out.
    """
    if window.counters[RECORDS] < window.counters[SLIDE]:
        return False
    next_slide(window)
    return True


@kernel
def next_slide(window: WindowedLoad) -> None:
    """Begin the next slide, full or not, and let the oldest one expire.

    For slides that end by time; they still hold at most `slide` records.
    """
    counters = window.counters
    place = counters[PLACE] + 1
    if place == window.n_entries.size:
        place = 0
    counters[PLACE] = place
    counters[RECORDS] = 0
    first = place * counters[STRIDE]
    for entry in range(first, first + window.n_entries[place]):
        row = window.entry_rows[entry]
        worker = window.entry_workers[entry]
        window.loads[worker] -= window.entry_counts[entry]
        counters[TOTAL] -= window.entry_counts[entry]
        slot = find_slot(window.pairs, _code(row, worker))
        if window.pairs.values[slot] == entry:
            remove_slot(window.pairs, slot)
            if window.row_workers.size > 0:
                _leave(window, row)
    window.n_entries[place] = 0


@kernel
def add(window: WindowedLoad, key: U64, worker: I64) -> I32:
    """Count a record of `key` on `worker`; return how many workers have the key now.

    Always 0 when fragmentation is switched off.
    """
    expire(window)
    counters = window.counters
    keyed = window.row_workers.size > 0
    row = _row_of(window, key) if keyed else np.int32(0)
    first = counters[PLACE] * counters[STRIDE]
    slot = find_slot(window.pairs, _code(row, worker))
    entry = np.int64(window.pairs.values[slot])
    if first <= entry < first + counters[STRIDE]:
        window.entry_counts[entry] += 1
    else:  # new in this slide
        if entry == ABSENT:  # new in the window
            window.pairs.keys[slot] = _code(row, worker)
            if keyed:
                window.row_workers[row] += 1
        entry = first + window.n_entries[counters[PLACE]]
        window.n_entries[counters[PLACE]] += 1
        window.entry_rows[entry] = row
        window.entry_workers[entry] = worker
        window.entry_counts[entry] = 1
        window.pairs.values[slot] = entry
    window.loads[worker] += 1
    counters[TOTAL] += 1
    counters[RECORDS] += 1
    return window.row_workers[row] if keyed else np.int32(0)


@kernel
def fragmentation(window: WindowedLoad, key: U64) -> I32:
    """Return |X(k)|: how many workers have a record of `key` in the window."""
    row = get(window.rows, key)
    return np.int32(0) if row == ABSENT else window.row_workers[row]


@kernel
def holds(window: WindowedLoad, key: U64, worker: I64) -> bool:
    """Return whether `worker` has a record of `key` in the window."""
    row = get(window.rows, key)
    return bool(row != ABSENT and get(window.pairs, _code(row, worker)) != ABSENT)


@kernel
def _code(row: I32, worker: I64) -> U64:
    return (np.uint64(row) << _SHIFT_32) | np.uint64(worker)


@kernel
def _row_of(window: WindowedLoad, key: U64) -> I32:
    """Return the row of `key`, a free one when it is new."""
    slot = find_slot(window.rows, key)
    row = window.rows.values[slot]
    if row == ABSENT:
        window.counters[N_FREE] -= 1
        row = window.free_rows[window.counters[N_FREE]]
        window.rows.keys[slot] = key
        window.rows.values[slot] = row
        window.row_keys[row] = key
    return row


@kernel
def _leave(window: WindowedLoad, row: I32) -> None:
    """Take one worker from the key in `row`; with the last one, the key is forgotten."""
    window.row_workers[row] -= 1
    if window.row_workers[row] == 0:
        remove_slot(window.rows, find_slot(window.rows, window.row_keys[row]))
        window.free_rows[window.counters[N_FREE]] = row
        window.counters[N_FREE] += 1
