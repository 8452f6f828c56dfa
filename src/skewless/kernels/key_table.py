"""A hash table from key hashes to small integers: arrays only, fixed size, O(1) in expectation.

Open addressing with linear probing; a removal shifts the followers back, so there are no
tombstones and a table that lives for a billion records is as fast as a new one. The caller keeps
the load below the size given to `key_table`; the kernels do not check it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import I32, I64, U64, Ints, SmallInts, Words
from skewless.kernels.hashing import mix
from skewless.plumbing.compiling import kernel
from skewless.state import require_rows, require_that, within

ABSENT = -1


@within(ABSENT, 2**30, "values")
class KeyTable(NamedTuple):
    """Slots, at most half of them in use."""

    keys: Words
    values: SmallInts  # ABSENT marks an empty slot, so that every key hash is allowed, even 0

    def check(self, fresh: KeyTable) -> None:
        """Refuse a table in which a search would not end, or would not find a key."""
        used = np.flatnonzero(self.values != ABSENT)
        n_slots = self.values.size
        require_that(self.keys.size == n_slots, "keys and values must be of equal length")
        require_that(
            n_slots > 1 and not n_slots & (n_slots - 1), "keys must be a power of two of slots"
        )
        require_that(2 * used.size <= n_slots, "values must leave half of the slots empty")
        require_that(_are_found(self, used), "keys must each be where a search finds it, and once")


def key_table(n_keys: int) -> KeyTable:
    """Return an empty table for up to `n_keys` keys."""
    n_slots = 1 << max(2, (2 * n_keys - 1).bit_length())
    return KeyTable(np.zeros(n_slots, np.uint64), np.full(n_slots, ABSENT, np.int32))


@kernel
def find_slot(table: KeyTable, key: U64) -> I64:
    """Return the slot that holds `key`, or the empty one where it would go."""
    mask = table.keys.size - 1
    # Keys are hashes, whose low bits may be alike. An adversary can still choose keys that make
    # long chains here, because this mixing is public; `untrusted_keys` on Spark prevents it.
    slot = np.int64(mix(key)) & mask
    while table.values[slot] != ABSENT and table.keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def _are_found(table: KeyTable, slots: Ints) -> bool:
    """Tell whether a search for the key of each of these slots ends there."""
    n_found = 0
    for i in range(slots.size):
        n_found += np.int64(find_slot(table, table.keys[slots[i]]) == slots[i])
    return bool(n_found == slots.size)


def require_entries(table: KeyTable, keys: Words, free: NDArray[Any]) -> None:
    """Raise `Unsound` unless `table` maps the key of each row that is not free to that row."""
    used = np.flatnonzero(table.values != ABSENT)
    rows = table.values[used]
    require_rows("table", rows, free, keys.size)
    require_that(np.array_equal(keys[rows], table.keys[used]), "keys must be those of the table")


@kernel
def get(table: KeyTable, key: U64) -> I32:
    """Return the value of `key`, or ABSENT."""
    return table.values[find_slot(table, key)]


@kernel
def put(table: KeyTable, key: U64, value: I32) -> None:
    """Set the value of `key`, which may be new."""
    slot = find_slot(table, key)
    table.keys[slot] = key
    table.values[slot] = value


@kernel
def put_all(table: KeyTable, keys: Words, values: SmallInts) -> None:
    """Set the value of each of these keys, which may be new."""
    for i in range(keys.size):
        put(table, keys[i], values[i])


@kernel
def remove_slot(table: KeyTable, slot: I64) -> None:
    """Empty `slot` and close the gap, so that every other key is still found."""
    mask = table.keys.size - 1
    gap = slot
    follower = (gap + 1) & mask
    while table.values[follower] != ABSENT:
        home = np.int64(mix(table.keys[follower])) & mask
        # The follower may move into the gap unless its home lies between gap and follower.
        if ((follower - home) & mask) >= ((follower - gap) & mask):
            table.keys[gap] = table.keys[follower]
            table.values[gap] = table.values[follower]
            gap = follower
        follower = (follower + 1) & mask
    table.values[gap] = ABSENT


@kernel
def clear(table: KeyTable) -> None:
    """Forget all keys."""
    table.values[:] = ABSENT
