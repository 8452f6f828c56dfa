"""The last N records of a stream, with a row for each of their keys.

A key has a row, a small number, as long as it is in the window, so that a strategy can keep data
per key in arrays. The ring holds rows, not keys: the count of a record that leaves is found without
hashing. The window may become longer and shorter while it runs.

Keys are given as seeded hashes, which the caller has anyway. A seeded hash identifies the key, and
its low bits give the key's slot in the table.

This is not a `key_table` of the kernels, although both probe in the same way. A record that leaves
has its row, and the row has its slot, so nothing is hashed or searched; a `key_table` has no way
back from a value to its slot. And it would mix the hash a second time in each search.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import U64, Ints, SmallInts, Words
from skewless.plumbing.compiling import kernel
from skewless.state import require_rows, require_that, require_within, zeros

#: The row of keys that are not in the window; its count is always 0.
NO_ROW = np.uint32(0)
_ONE = np.uint64(1)

# Positions in `counters`. A loop over many records keeps them in variables of its own: what is
# read from memory right after it was written there costs more than all the rest.
PLACE = 0  # in the ring, where the next record goes
SIZE = 1  # records in the window
N_FREE = 2  # rows on the stack


class SamplingWindow(NamedTuple):
    """Rows of the last records in a ring, the newest before PLACE, and where their keys are.

    Places, slots and rows are unsigned: for a signed index the compiler must add the code that
    makes −1 the last one, at every access.
    """

    hashes: Words  # per slot: the hash of its key
    rows: NDArray[np.uint32]  # per slot: the key's row, NO_ROW when the slot is empty
    ring: NDArray[np.uint32]  # per place: a row
    counts: SmallInts  # per row: its records in the window; 0 when the row is free
    slots: NDArray[np.uint32]  # per row: the slot of its key
    free: NDArray[np.uint32]  # a stack of rows
    counters: Words

    def check(self, fresh: SamplingWindow) -> None:
        """Refuse rows, places and slots that do not exist, or that contradict each other."""
        n_rows = self.free.size
        require_within("counters", self.counters[[PLACE]], 0, self.ring.size - 1)
        require_within("counters", self.counters[[SIZE]], 0, n_rows - 1)
        require_within("counters", self.counters[[N_FREE]], 1, n_rows)
        place, size, n_free = self.counters.tolist()
        recent = self.ring[np.arange(place - size, place) & (self.ring.size - 1)]
        require_within("ring", recent, 1, n_rows)
        counts = np.bincount(recent, minlength=n_rows + 1)
        require_that(np.array_equal(self.counts, counts), "counts must be those of the ring")
        used = np.flatnonzero(counts)
        require_rows("free", used - 1, self.free[:n_free].astype(np.int64) - 1, n_rows)
        require_within("slots", self.slots[used], 0, self.rows.size - 1)
        require_that(
            np.array_equal(self.rows[self.slots[used]], used), "slots must lead to the rows"
        )
        occupied = np.flatnonzero(self.rows != NO_ROW)
        require_that(occupied.size == used.size, "rows must be those of the ring")
        require_that(
            _are_found(self, occupied), "hashes must each be where a search finds it, and once"
        )


def sampling_window(capacity: int) -> SamplingWindow:
    """Return an empty window that may hold up to `capacity` records, one at least."""
    n_rows = capacity + 1  # the newcomer enters before the oldest leaves
    n_slots = 1 << (4 * n_rows - 1).bit_length()  # sparse: nearly every search ends at once
    return zeros(
        SamplingWindow,
        n_slots,
        ring=1 << capacity.bit_length(),
        counts=n_rows + 1,
        slots=n_rows + 1,
        free=np.arange(1, n_rows + 1, dtype=np.uint32),
        counters=np.array([0, 0, n_rows], np.uint64),
    )


@kernel
def find(window: SamplingWindow, hashed: U64) -> U64:
    """Return the slot of a key, or the empty one where it would go."""
    mask = np.uint64(window.hashes.size - 1)
    slot = hashed & mask
    while (window.rows[slot] != NO_ROW) & (window.hashes[slot] != hashed):
        slot = (slot + _ONE) & mask
    return slot


@kernel
def _are_found(window: SamplingWindow, slots: Ints) -> bool:
    """Tell whether a search for the key of each of these slots ends there."""
    n_found = 0
    for i in range(slots.size):
        n_found += np.int64(find(window, window.hashes[slots[i]]) == np.uint64(slots[i]))
    return bool(n_found == slots.size)


@kernel
def admit(window: SamplingWindow, hashed: U64, slot: U64, n_free: U64) -> U64:
    """Return a row for a key that is new in the window: the top one of the stack."""
    row = window.free[n_free - _ONE]
    window.hashes[slot] = hashed
    window.rows[slot] = row
    window.slots[row] = slot
    return row


@kernel
def leave(window: SamplingWindow, row: U64, n_free: U64) -> U64:
    """Remove one record of this row from the counts; return how many rows are free then."""
    count = window.counts[row]
    window.counts[row] = count - 1
    if count == 1:
        window.free[n_free] = row
        n_free += _ONE
        slot = np.uint64(window.slots[row])
        window.rows[slot] = NO_ROW
        if window.rows[(slot + _ONE) & np.uint64(window.hashes.size - 1)] != NO_ROW:
            _close_gap(window, slot)
    return n_free


@kernel
def _close_gap(window: SamplingWindow, gap: U64) -> None:
    """Move followers into an emptied slot, so that every other key is still found."""
    mask = np.uint64(window.hashes.size - 1)
    follower = (gap + _ONE) & mask
    while window.rows[follower] != NO_ROW:
        home = window.hashes[follower] & mask
        # The follower may move into the gap unless its home lies between gap and follower.
        if ((follower - home) & mask) >= ((follower - gap) & mask):
            window.hashes[gap] = window.hashes[follower]
            window.rows[gap] = window.rows[follower]
            window.slots[window.rows[gap]] = gap
            window.rows[follower] = NO_ROW
            gap = follower
        follower = (follower + _ONE) & mask


@kernel
def enter(
    window: SamplingWindow, row: U64, oldest: U64, length: U64, place: U64, size: U64, n_free: U64
) -> tuple[U64, U64, U64]:
    """Let a record of this row enter, and that of the row `oldest` leave a window that is full.

    Alg. 2, l. 18–22. Return the three counters, which a loop keeps in variables.
    """
    window.counts[row] += 1
    window.ring[place] = row
    if size == length:
        n_free = leave(window, oldest, n_free)
    else:
        size += _ONE
    return (place + _ONE) & np.uint64(window.ring.size - 1), size, n_free


def append(window: SamplingWindow, hashed: np.uint64) -> None:
    """Let a record enter a window that has room for it, outside a loop over many records."""
    place, size, n_free = window.counters
    slot = find(window, hashed)
    row = window.rows[slot]
    if row == NO_ROW:
        row = admit(window, hashed, slot, n_free)
        n_free -= _ONE
    capacity = np.uint64(window.free.size - 1)
    window.counters[:] = enter(
        window, np.uint64(row), np.uint64(NO_ROW), capacity, place, size, n_free
    )


def window_keys(window: SamplingWindow) -> Words:
    """Return the seeded hashes of the records in the window, the oldest first.

    >>> window = sampling_window(3)
    >>> for hashed in (5, 6, 5):
    ...     append(window, np.uint64(hashed))
    >>> window_keys(window).tolist()
    [5, 6, 5]
    """
    place, size = int(window.counters[PLACE]), int(window.counters[SIZE])
    places = np.arange(place - size, place) & (window.ring.size - 1)
    hashes: Words = window.hashes[window.slots[window.ring[places]]]
    return hashes


def row_of(window: SamplingWindow, hashed: np.uint64) -> int:
    """Return the row of a key, NO_ROW when it is not in the window."""
    return int(window.rows[find(window, hashed)])
