"""The workers with the smallest count, and those with the next larger one: two sets.

`least_loaded` finds the lightest of all workers. The two sets find the lightest of *some* workers,
which are a set of bits as well, by intersecting a few words: while counts are level, all workers
are in one of the two sets, and none of the counts is read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays import I64, U64, Ints, Words
from skewless.kernels.bits import lowest_bit, without_lowest, words_for
from skewless.plumbing.compiling import kernel
from skewless.state import MOST_COUNTED, within, zeros

LEVEL = 0
SIZE = 1
NO_WORKER = np.uint64(2**64 - 1)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_ALL = np.uint64(2**64 - 1)
_SHIFT = np.uint64(6)
_BITS = np.uint64(63)


@within(0, MOST_COUNTED, "counters")
class FloorSet(NamedTuple):
    """The smallest count, how many workers have it, which, and which have one more."""

    counters: Ints  # LEVEL, SIZE
    lightest: Words
    following: Words


def floor_set(counts: Ints) -> FloorSet:
    """Return the sets over `counts`, one per worker.

    >>> floor = floor_set(np.array([5, 3, 3, 4]))
    >>> floor.counters.tolist(), floor.lightest.tolist(), floor.following.tolist()
    ([3, 2], [6], [8])
    """
    floor = zeros(FloorSet, words_for(counts.size), counters=2)
    _collect(floor, counts)
    return floor


@kernel
def _collect(floor: FloorSet, counts: Ints) -> None:
    """Find the smallest count, the workers that have it, and those that have one more."""
    level = counts[0]
    for worker in range(1, counts.size):
        level = min(level, counts[worker])
    size = 0
    for w in range(floor.lightest.size):
        lowest, higher = _ZERO, _ZERO
        for b in range(min(64, counts.size - 64 * w)):
            above = counts[64 * w + b] - level
            lowest |= np.uint64(above == 0) << np.uint64(b)
            higher |= np.uint64(above == 1) << np.uint64(b)
            size += np.int64(above == 0)
        floor.lightest[w] = lowest
        floor.following[w] = higher
    floor.counters[LEVEL] = level
    floor.counters[SIZE] = size


@kernel
def follow(floor: FloorSet, counts: Ints, worker: U64, before: I64) -> None:
    """Bring the sets up to date: the count of `worker` was `before` and is one more now.

    O(1) amortised: the sets are made anew once per value of the smallest count, in n steps, and
    the smallest count never exceeds total / n.
    """
    above = before - floor.counters[LEVEL]
    w = np.uint64(worker) >> _SHIFT
    bit = np.uint64(worker) & _BITS
    leaves = np.uint64(above == 0) << bit
    floor.lightest[w] &= ~leaves
    floor.following[w] = (floor.following[w] & ~(np.uint64(above == 1) << bit)) | leaves
    size = floor.counters[SIZE] - np.int64(above == 0)
    floor.counters[SIZE] = size
    if size == 0:
        _collect(floor, counts)


@kernel
def take_lightest(
    floor: FloorSet,
    counts: Ints,
    sets: Words,
    begin: U64,
    start: U64,
    only_if_lightest_of_all: bool,
) -> U64:
    """Add 1 to the smallest count of the workers in a set, and return the worker.

    The set is the words of `sets` from `begin` on. Of equals, the first going round from worker
    `start` on is taken. With `only_if_lightest_of_all`, only if no other worker has a smaller
    count: otherwise nothing happens, and NO_WORKER is returned.

    It chooses and counts in one function, because the two overlap: the bit of the worker is enough
    to bring the sets up to date, and its number, which takes longer to compute, is needed only for
    its count. A function that returned the worker would put the number first.
    """
    any_lightest = _ZERO
    for w in range(np.uint64(floor.lightest.size)):
        any_lightest |= sets[begin + w] & floor.lightest[w]
    is_lightest = any_lightest != _ZERO
    wanted = floor.lightest if is_lightest else floor.following
    # Going round: the word of `start` from there on, the others, and that word again. There is no
    # branch, because no processor could predict where the worker will be.
    n_words = np.uint64(floor.lightest.size)
    at = start >> _SHIFT
    common = sets[begin + at] & wanted[at] & (_ALL << (start & _BITS))
    w = at
    for _ in range(floor.lightest.size):
        w += _ONE
        w = w if w < n_words else _ZERO
        found = sets[begin + w] & wanted[w]
        at = w if common == _ZERO else at
        common = found if common == _ZERO else common
    if only_if_lightest_of_all & (not is_lightest):
        return NO_WORKER
    if common == _ZERO:
        return _by_looking(floor, counts, sets, begin, start)
    # The next record waits for the sets, so they are written before the worker's number is known.
    alone = common & (~common + _ONE)
    floor.lightest[at] &= ~(alone if is_lightest else _ZERO)
    floor.following[at] ^= alone
    size = floor.counters[SIZE] - np.int64(is_lightest)
    floor.counters[SIZE] = size
    worker = (at << _SHIFT) + np.uint64(lowest_bit(common))
    counts[worker] += 1
    if size == 0:
        _collect(floor, counts)
    return worker


@kernel
def _by_looking(floor: FloorSet, counts: Ints, sets: Words, begin: U64, start: U64) -> U64:
    """Do what `take_lightest` does if all workers of the set are above the two lowest counts."""
    n_words = np.uint64(floor.lightest.size)
    best = NO_WORKER
    w = start >> _SHIFT
    word = sets[begin + w] & (_ALL << (start & _BITS))
    for _ in range(floor.lightest.size + 1):
        while word != _ZERO:
            worker = (w << _SHIFT) + np.uint64(lowest_bit(word))
            word = without_lowest(word)
            if best == NO_WORKER or counts[worker] < counts[best]:
                best = worker
        w += _ONE
        w = w if w < n_words else _ZERO
        word = sets[begin + w]
    counts[best] += 1
    follow(floor, counts, best, counts[best] - 1)
    return best


@kernel
def lightest(floor: FloorSet, start: U64) -> U64:
    """Return the worker with the smallest count; of equals, the first going round from `start`."""
    n_words = np.uint64(floor.lightest.size)
    w = start >> _SHIFT
    word = floor.lightest[w] & (_ALL << (start & _BITS))
    while word == _ZERO:
        w += _ONE
        w = w if w < n_words else _ZERO
        word = floor.lightest[w]
    return (w << _SHIFT) + np.uint64(lowest_bit(word))


@kernel
def add_to(sets: Words, begin: U64, worker: U64) -> None:
    """Put a worker into the set that begins there.

    As `add_worker` of `kernels.bits`, with unsigned indices and without a slice.
    """
    sets[begin + (worker >> _SHIFT)] |= _ONE << (worker & _BITS)


def members(row: Words, n_workers: int) -> Ints:
    """Return a set of workers as one 0 or 1 per worker.

    >>> members(np.array([6], np.uint64), 4).tolist()
    [0, 1, 1, 0]
    """
    workers = np.arange(n_workers)
    bits: Words = row[workers >> 6] >> (workers.astype(np.uint64) & _BITS) & _ONE
    return bits.astype(np.int64)
