"""The last N records of a stream, with a row for each of their keys.

Like `recent_keys`, but a key has a small number of its own as long as it is in the window, so that
a strategy can keep something per key in arrays. The ring holds rows, not keys: the record that
leaves finds its count without hashing. The window may be shortened and lengthened while it runs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless._jit import kernel
from skewless.arrays import I32, I64, U64, Ints, SmallInts
from skewless.kernels.hashing import mix
from skewless.kernels.key_table import ABSENT, KeyTable, find_slot, key_table

LENGTH = 0  # records that the window holds when full
SIZE = 1  # records that it holds
PLACE = 2  # where the next one goes
N_FREE = 3


class SamplingWindow(NamedTuple):
    """Rows of the last records, oldest first from PLACE − SIZE on, and where their keys are."""

    table: KeyTable  # key -> row
    ring: SmallInts
    counts: SmallInts  # per row: its records in the window; 0 when the row is free
    slots: SmallInts  # per row: where its key stands in the table
    free: SmallInts  # a stack of rows
    counters: Ints


def sampling_window(length: int, capacity: int | None = None) -> SamplingWindow:
    """Return an empty window of `length` records that may grow to `capacity`.

    >>> window = sampling_window(2)
    >>> for key in (7, 8, 8):
    ...     row = enter(window, np.uint64(key))
    ...     leave(window)
    ...     print(int(row), window.counts.tolist())
    0 [1, 0, 0]
    1 [1, 1, 0]
    1 [0, 2, 0]
    """
    places = length if capacity is None else capacity
    if not 1 <= length <= places:
        raise ValueError(f"sampling_window: length must be 1 … {places}, not {length}")
    n_rows = places + 1  # the newcomer enters before the oldest leaves
    return SamplingWindow(
        table=key_table(4 * n_rows),  # sparse: nearly every search ends where it begins
        ring=np.zeros(n_rows, np.int32),
        counts=np.zeros(n_rows, np.int32),
        slots=np.zeros(n_rows, np.int32),
        free=np.arange(n_rows - 1, -1, -1, dtype=np.int32),
        counters=np.array([length, 0, 0, n_rows]),
    )


@kernel
def enter(window: SamplingWindow, key: U64) -> I32:
    """Let a record of `key` enter; return the key's row. `leave` must follow.

    Without a branch on whether the key is new, since nobody could guess it.
    """
    counters = window.counters
    slot = find_slot(window.table, key)
    row = window.table.values[slot]
    is_new = row == ABSENT
    top = counters[N_FREE] - 1
    row = window.free[top] if is_new else row
    counters[N_FREE] = top if is_new else top + 1
    window.table.keys[slot] = key
    window.table.values[slot] = row
    window.slots[row] = slot
    window.counts[row] += 1
    place = counters[PLACE]
    window.ring[place] = row
    counters[PLACE] = place + 1 if place + 1 < window.ring.size else 0
    counters[SIZE] += 1
    return row


@kernel
def leave(window: SamplingWindow) -> None:
    """Let the oldest records leave until there are no more than the window's length."""
    counters = window.counters
    while counters[SIZE] > counters[LENGTH]:
        place = counters[PLACE] - counters[SIZE]
        place = place if place >= 0 else place + window.ring.size
        row = window.ring[place]
        count = window.counts[row] - 1
        window.counts[row] = count
        counters[SIZE] -= 1
        # The last record of its key: the row becomes free, again without a branch.
        window.free[counters[N_FREE]] = row
        counters[N_FREE] += np.int64(count == 0)
        slot = np.int64(window.slots[row])
        window.table.values[slot] = row if count > 0 else np.int32(ABSENT)
        following = (slot + 1) & (window.table.keys.size - 1)
        if window.table.values[following] != ABSENT and count == 0:
            _close_gap(window, slot)


@kernel
def _close_gap(window: SamplingWindow, gap: I64) -> None:
    """Move the followers of an emptied slot, so that every other key is still found."""
    table = window.table
    mask = table.keys.size - 1
    follower = (gap + 1) & mask
    while table.values[follower] != ABSENT:
        home = np.int64(mix(table.keys[follower])) & mask
        # The follower may move into the gap unless its home lies between gap and follower.
        if ((follower - home) & mask) >= ((follower - gap) & mask):
            table.keys[gap] = table.keys[follower]
            table.values[gap] = table.values[follower]
            window.slots[table.values[gap]] = gap
            table.values[follower] = np.int32(ABSENT)
            gap = follower
        follower = (follower + 1) & mask
