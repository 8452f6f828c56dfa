"""The last N keys of a stream, and how often each of them occurs there, in O(1) per record.

Pd-Stream's sampling window: N records, sliding by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless._jit import kernel
from skewless.arrays import I64, U64, Ints, Keys
from skewless.kernels.key_table import ABSENT, KeyTable, find_slot, key_table, remove_slot
from skewless.kernels.key_table import clear as clear_table


class RecentKeys(NamedTuple):
    """A ring of keys, and their counts."""

    keys: Keys
    size: Ints  # [number of keys in the ring]
    oldest: Ints  # [place of the oldest key once the ring is full: where the next one goes]
    counts: KeyTable


def recent_keys(n_records: int) -> RecentKeys:
    """Return an empty window of `n_records` records.

    >>> recent = recent_keys(3)
    >>> [int(push(recent, np.uint64(key))) for key in [7, 7, 8, 7, 9, 9, 7]]
    [1, 2, 1, 2, 1, 2, 1]
    """
    if n_records < 1:
        raise ValueError(f"n_records must be an integer of at least 1, not {n_records!r}")
    return RecentKeys(
        keys=np.zeros(n_records, np.uint64),
        size=np.zeros(1, np.int64),
        oldest=np.zeros(1, np.int64),
        counts=key_table(2 * n_records),  # sparse: every record enters one key and removes one
    )


@kernel
def push(recent: RecentKeys, key: U64) -> I64:
    """Let `key` enter and the oldest leave; return how often `key` is among the last N now."""
    place = recent.oldest[0]
    if recent.size[0] < recent.keys.size:
        recent.size[0] += 1
    else:
        slot = find_slot(recent.counts, recent.keys[place])
        if recent.counts.values[slot] == 1:
            remove_slot(recent.counts, slot)
        else:
            recent.counts.values[slot] -= 1
    recent.keys[place] = key
    recent.oldest[0] = place + 1 if place + 1 < recent.keys.size else 0
    slot = find_slot(recent.counts, key)
    if recent.counts.values[slot] == ABSENT:
        recent.counts.keys[slot] = key
        recent.counts.values[slot] = 1
    else:
        recent.counts.values[slot] += 1
    return np.int64(recent.counts.values[slot])


@kernel
def count(recent: RecentKeys, key: U64) -> I64:
    """Return how often `key` is among the last N records."""
    return max(np.int64(0), np.int64(recent.counts.values[find_slot(recent.counts, key)]))


@kernel
def clear(recent: RecentKeys) -> None:
    """Forget all records."""
    clear_table(recent.counts)
    recent.size[0] = 0
    recent.oldest[0] = 0
