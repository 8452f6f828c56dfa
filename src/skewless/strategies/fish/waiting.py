"""Waiting times, and the worker of a set who waits least, without looking at every one.

A waiting time is a whole number of ticks; `TICKS` of them are the time that the fastest worker
takes for a record, and make one level. Workers of the same level are kept as one set of bits, for
`LEVELS` levels from the lowest on; whoever waits longer is in a set of stragglers. The least of
any set of workers is then found level by level, 64 workers at a time: balanced workers are within
a few levels of each other, so that is a handful of operations, however large the set.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless._jit import kernel
from skewless.arrays import F64, I64, U64, Floats, Ints, Words
from skewless.kernels.bits import lowest_bit, without_lowest, words_for
from skewless.sound import MOST_COUNTED, require_that, require_within

#: Ticks per record of the fastest worker: how finely speeds are told apart.
TICKS = 1024
#: Levels that have a set of their own; a power of two.
LEVELS = 16
_SHIFT = 10
_MASK = LEVELS - 1
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_BITS = np.uint64(63)

_LARGEST_LAG = 1 << 30  # levels


class Waiting(NamedTuple):
    """`ticks[w]` is for reading; the rest through the functions below."""

    ticks: Ints  # per worker: until it has done what it was sent
    costs: Ints  # per worker: ticks that a record takes
    sets: Words  # LEVELS + 1 sets of workers, the last one of stragglers
    same: Ints  # [1 if all workers are equally fast]
    floor: Ints  # [a level that nobody is below]

    def check(self, fresh: Waiting) -> None:
        """Refuse sets that do not follow from the waiting times, and a floor far below them."""
        require_within("ticks", self.ticks, 0, MOST_COUNTED)
        require_within("costs", self.costs, 1, MOST_COUNTED >> 20)
        require_that(
            self.same[0] == int((self.costs == TICKS).all()), "same must follow from costs"
        )
        levels = self.ticks >> _SHIFT
        lowest = int(levels.min())
        # A floor that is raised level by level must not be too far away.
        require_within("floor", self.floor, max(0, lowest - _LARGEST_LAG), lowest)
        n_workers = self.ticks.size
        workers = np.arange(n_workers)
        rows = np.where(levels - self.floor[0] < LEVELS, levels & _MASK, LEVELS)
        sets = np.zeros_like(self.sets)
        bits = _ONE << (workers.astype(np.uint64) & _BITS)
        np.bitwise_or.at(sets, rows * words_for(n_workers) + (workers >> 6), bits)
        require_that(np.array_equal(self.sets, sets), "sets must be those of the waiting times")


def waiting(seconds_per_record: Floats) -> Waiting:
    """Return workers that wait for nothing, and take so long for a record.

    >>> waiting(np.array([0.5, 0.25])).costs.tolist()
    [2048, 1024]
    """
    n_workers = seconds_per_record.size
    times = Waiting(
        ticks=np.zeros(n_workers, np.int64),
        costs=np.zeros(n_workers, np.int64),
        same=np.zeros(1, np.int64),
        sets=np.zeros((LEVELS + 1) * words_for(n_workers), np.uint64),
        floor=np.zeros(1, np.int64),
    )
    set_seconds(times, seconds_per_record, 1.0)
    return times


def set_seconds(times: Waiting, seconds_per_record: Floats, tick: float) -> None:
    """Say how long a record takes each worker; so far a tick was `tick` seconds.

    From now on it is the smallest of `seconds_per_record` / `TICKS`.
    """
    new_tick = seconds_per_record.min() / TICKS
    times.costs[:] = np.rint(seconds_per_record / new_tick)
    times.same[0] = int((times.costs == TICKS).all())
    times.ticks[:] = np.rint(times.ticks * (tick / new_tick))
    regroup(times)


@kernel
def _place(times: Waiting, worker: I64, ticks: I64) -> I64:
    """Return the word in which `worker` is when it waits so long."""
    level = ticks >> _SHIFT
    row = level & _MASK if level - times.floor[0] < LEVELS else LEVELS
    n_words = words_for(times.ticks.size)
    return row * n_words + (worker >> 6)


@kernel
def send(times: Waiting, worker: I64) -> None:
    """Let `worker` wait for one record more."""
    before = times.ticks[worker]
    after = before + times.costs[worker]
    times.ticks[worker] = after
    bit = _ONE << (np.uint64(worker) & _BITS)
    times.sets[_place(times, worker, before)] ^= bit
    times.sets[_place(times, worker, after)] ^= bit


@kernel
def regroup(times: Waiting) -> None:
    """Sort all workers into levels again, after `ticks` was written."""
    lowest = times.ticks[0]
    for worker in range(1, times.ticks.size):
        lowest = min(lowest, times.ticks[worker])
    times.floor[0] = lowest >> _SHIFT
    for word in range(times.sets.size):
        times.sets[word] = _ZERO
    for worker in range(times.ticks.size):
        bit = _ONE << (np.uint64(worker) & _BITS)
        times.sets[_place(times, worker, times.ticks[worker])] |= bit


@kernel
def pass_time(times: Waiting, ticks: F64) -> None:
    """Let time go by: everyone works off so much, and nobody more than it has."""
    for worker in range(times.ticks.size):
        times.ticks[worker] = max(0, times.ticks[worker] - np.int64(ticks))
    regroup(times)


@kernel
def _raise_floor(times: Waiting) -> None:
    """Leave the lowest level, which is empty; its set takes in the level after the highest."""
    n_words = words_for(times.ticks.size)
    level = times.floor[0] + LEVELS
    times.floor[0] += 1
    for j in range(n_words):
        stragglers = times.sets[LEVELS * n_words + j]
        while stragglers != _ZERO:
            worker = 64 * j + lowest_bit(stragglers)
            if times.ticks[worker] >> _SHIFT == level:
                bit = _ONE << (np.uint64(worker) & _BITS)
                times.sets[LEVELS * n_words + j] ^= bit
                times.sets[(level & _MASK) * n_words + j] ^= bit
            stragglers = without_lowest(stragglers)


@kernel
def _find_at(times: Waiting, allowed: Words, begin: I64, level: I64) -> tuple[I64, U64]:
    """Return the first word in which somebody of the set is at `level`, and who: 0 for nobody."""
    n_words = words_for(times.ticks.size)
    row = (level & _MASK) * n_words
    word = 0
    found = _ZERO
    for j in range(n_words):  # all of them, without a guess which one it will be
        both = times.sets[row + j] & allowed[begin + j]
        word = j if found == _ZERO else word
        found = both if found == _ZERO else found
    return word, found


@kernel
def _is_empty(times: Waiting, level: I64) -> bool:
    n_words = words_for(times.ticks.size)
    row = (level & _MASK) * n_words
    anybody = _ZERO
    for j in range(n_words):
        anybody |= times.sets[row + j]
    return bool(anybody == _ZERO)


@kernel
def _lowest_level(times: Waiting, allowed: Words, begin: I64) -> I64:
    """Return the lowest level at which somebody of the set is, or −1: they are all stragglers."""
    while _is_empty(times, times.floor[0]):
        _raise_floor(times)
    for level in range(times.floor[0], times.floor[0] + LEVELS):
        _, found = _find_at(times, allowed, begin, level)
        if found != _ZERO:
            return level
    return -1


@kernel
def send_to_least(times: Waiting, allowed: Words, begin: I64) -> I64:
    """Send a record to the worker of the lowest level in the set, lowest index on a tie.

    The set is as many words as the workers need, from `allowed[begin]` on, and is not empty.
    """
    n_words = words_for(times.ticks.size)
    level = times.floor[0]
    word, found = _find_at(times, allowed, begin, level)
    if found == _ZERO:  # rare: most sets have somebody at the floor
        level = _lowest_level(times, allowed, begin)
        if level < 0:
            worker = _least_straggler(times, allowed, begin)
            send(times, worker)
            return worker
        word, found = _find_at(times, allowed, begin, level)
    worker = 64 * word + lowest_bit(found)
    if times.same[0] == 0:
        send(times, worker)
        return worker
    # Its next level is known before the worker is: the next record need not wait for that.
    bit = found & (~found + _ONE)
    times.sets[(level & _MASK) * n_words + word] ^= bit
    level += 1
    row = level & _MASK if level - times.floor[0] < LEVELS else LEVELS
    times.sets[row * n_words + word] ^= bit
    times.ticks[worker] += TICKS
    return worker


@kernel
def _least_straggler(times: Waiting, allowed: Words, begin: I64) -> I64:
    n_words = words_for(times.ticks.size)
    best = -1
    for j in range(n_words):
        left = allowed[begin + j]
        while left != _ZERO:
            worker = 64 * j + lowest_bit(left)
            if best < 0 or times.ticks[worker] >> _SHIFT < times.ticks[best] >> _SHIFT:
                best = worker
            left = without_lowest(left)
    return best
