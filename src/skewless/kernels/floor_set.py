"""The workers with the smallest count, as a set of bits.

`least_loaded` finds one such worker. The set finds, among *some* workers that are a set of bits
as well, one that no other worker at all is lighter than: a few words are intersected, none of the
counts is read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless._jit import kernel
from skewless.arrays import I64, U64, Ints, Words
from skewless.kernels.bits import add_worker, lowest_bit, words_for

LEVEL = 0
SIZE = 1
_ZERO = np.uint64(0)
_BITS = np.uint64(63)


class FloorSet(NamedTuple):
    """The smallest count, how many workers have it, and which."""

    counters: Ints  # LEVEL, SIZE
    words: Words


def floor_set(counts: Ints) -> FloorSet:
    """Return the set over `counts`, one per worker.

    >>> floor = floor_set(np.array([5, 3, 3]))
    >>> floor.counters.tolist(), floor.words.tolist()
    ([3, 2], [6])
    """
    floor = FloorSet(np.zeros(2, np.int64), np.zeros(words_for(counts.size), np.uint64))
    rebuild(floor, counts)
    return floor


@kernel
def rebuild(floor: FloorSet, counts: Ints) -> None:
    """Find the smallest count and all who have it."""
    level = counts[0]
    for worker in range(1, counts.size):
        level = min(level, counts[worker])
    size = 0
    floor.words[:] = _ZERO
    for worker in range(counts.size):
        if counts[worker] == level:
            add_worker(floor.words, worker)
            size += 1
    floor.counters[LEVEL] = level
    floor.counters[SIZE] = size


@kernel
def increment(floor: FloorSet, counts: Ints, worker: I64) -> None:
    """Add 1 to the count of `worker`.

    O(1) amortised: the set is built again when it is empty, that is once per value of the smallest
    count, which never exceeds total/n; building it takes n steps.
    """
    before = counts[worker]
    counts[worker] = before + 1
    leaves = before == floor.counters[LEVEL]
    floor.words[worker >> 6] &= ~(np.uint64(leaves) << (np.uint64(worker) & _BITS))
    size = floor.counters[SIZE] - np.int64(leaves)
    floor.counters[SIZE] = size
    if size == 0:
        rebuild(floor, counts)


@kernel
def lowest_common(floor: FloorSet, workers: Words) -> I64:
    """Return the lowest of `workers` that has the smallest count of all; −1 if none has."""
    for w in range(workers.size):
        common: U64 = workers[w] & floor.words[w]
        if common != _ZERO:
            return 64 * w + lowest_bit(common)
    return -1
