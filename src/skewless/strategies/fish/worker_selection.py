"""Waiting times, and the worker of a set with the shortest one, found without a scan.

A waiting time is a whole number of ticks; `TICKS` of them are the time that the fastest worker
takes for a record, and make one level. Workers of the same level are kept as one set of bits, for
`LEVELS` levels from the lowest on; workers above those are in a set of stragglers. The least of
any set of workers is then found level by level, 64 workers at a time: balanced workers are within
a few levels of each other, so that is a handful of operations, however large the set.

Workers of the same level are taken in turn, starting from a worker that differs by source. Taking
the lowest index would be wrong: all sources would begin with worker 0, and do so again after every
estimate.

A worker that has left takes 0 ticks for a record, and is in no set.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays import F64, I64, U64, Floats, Ints, Words
from skewless.kernels.bits import lowest_bit, without_lowest, words_for
from skewless.plumbing.compiling import kernel
from skewless.state import MOST_COUNTED, require_that, require_within, within, zeros

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


@within(0, MOST_COUNTED, "ticks")
@within(0, MOST_COUNTED >> 20, "costs")
class WaitingTimes(NamedTuple):
    """Read `ticks[w]`; use the rest through the functions below."""

    ticks: Ints  # per worker: the time until it has done what it was sent
    costs: Ints  # per worker: ticks that a record takes
    sets: Words  # LEVELS + 1 sets of workers, the last one of stragglers
    same: Ints  # [1 if all workers are equally fast]
    floor: Ints  # [a level that no worker is below]
    turn: Ints  # [the worker that is first where levels are equal]

    def check(self, fresh: WaitingTimes) -> None:
        """Refuse sets that do not follow from the waiting times, and a floor far below them."""
        require_within("turn", self.turn, 0, self.ticks.size - 1)
        stays = self.costs > 0
        require_that(bool(stays.any()), "costs must be above 0 for some worker")
        require_that(self.same[0] == int(_are_same(self.costs)), "same must follow from costs")
        levels = self.ticks >> _SHIFT
        lowest = int(levels[stays].min())
        # A floor that is raised level by level must not be too far away.
        require_within("floor", self.floor, max(0, lowest - _LARGEST_LAG), lowest)
        wanted = self._replace(sets=np.zeros_like(self.sets))
        _fill_sets(wanted)
        require_that(
            np.array_equal(self.sets, wanted.sets), "sets must be those of the waiting times"
        )


def _are_same(costs: Ints) -> bool:
    return bool((costs[costs > 0] == TICKS).all())


def waiting_times(seconds_per_record: Floats, turn: int = 0) -> WaitingTimes:
    """Return idle workers with these seconds per record; ∞: the worker has left.

    >>> waiting_times(np.array([0.5, 0.25, np.inf])).costs.tolist()
    [2048, 1024, 0]
    """
    n_workers = seconds_per_record.size
    sets = (LEVELS + 1) * words_for(n_workers)
    turns = np.array([turn])
    times = zeros(WaitingTimes, n_workers, sets=sets, same=1, floor=1, turn=turns)
    set_seconds(times, seconds_per_record)
    return times


def costs_of(seconds_per_record: Floats) -> Ints:
    """Return the ticks that a record takes each worker; 0 if it has left."""
    ticks = seconds_per_record * (TICKS / seconds_per_record.min())
    costs: Ints = np.where(np.isfinite(ticks), np.rint(ticks), 0).astype(np.int64)
    return costs


def queued(times: WaitingTimes) -> Floats:
    """Return C_w, the records that wait at each worker; 0 at those that have left.

    >>> times = waiting_times(np.array([0.5, 0.25]))
    >>> send(times, 0)
    >>> queued(times).tolist()
    [1.0, 0.0]
    """
    stays = times.costs > 0
    records: Floats = np.divide(times.ticks, times.costs, out=np.zeros(stays.size), where=stays)
    return records


def set_queued(times: WaitingTimes, records: Floats) -> None:
    """Set how many records wait at each worker."""
    times.ticks[:] = np.rint(records * times.costs)
    regroup(times)


def set_seconds(times: WaitingTimes, seconds_per_record: Floats) -> None:
    """Set the seconds per record of each worker; the number of queued records (C_w) stays.

    A tick is from now on the smallest of `seconds_per_record` / `TICKS`.
    """
    records = queued(times)
    times.costs[:] = costs_of(seconds_per_record)
    times.same[0] = int(_are_same(times.costs))
    set_queued(times, records)


@kernel
def _place(times: WaitingTimes, worker: I64, ticks: I64) -> I64:
    """Return the word that holds `worker` when its waiting time is `ticks`."""
    level = ticks >> _SHIFT
    row = level & _MASK if level - times.floor[0] < LEVELS else LEVELS
    n_words = words_for(times.ticks.size)
    return row * n_words + (worker >> 6)


@kernel
def send(times: WaitingTimes, worker: I64) -> None:
    """Add one record to the waiting time of `worker`."""
    before = times.ticks[worker]
    after = before + times.costs[worker]
    times.ticks[worker] = after
    bit = _ONE << (np.uint64(worker) & _BITS)
    times.sets[_place(times, worker, before)] ^= bit
    times.sets[_place(times, worker, after)] ^= bit


@kernel
def regroup(times: WaitingTimes) -> None:
    """Sort all workers into levels again, after `ticks` was written."""
    lowest = np.int64(-1)
    for worker in range(times.ticks.size):
        ticks = times.ticks[worker]
        if times.costs[worker] > 0 and (lowest < 0 or ticks < lowest):
            lowest = ticks
    times.floor[0] = lowest >> _SHIFT
    times.sets[:] = _ZERO
    _fill_sets(times)


@kernel
def _fill_sets(times: WaitingTimes) -> None:
    for worker in range(times.ticks.size):
        if times.costs[worker] > 0:
            bit = _ONE << (np.uint64(worker) & _BITS)
            times.sets[_place(times, worker, times.ticks[worker])] |= bit


@kernel
def pass_time(times: WaitingTimes, ticks: F64) -> None:
    """Reduce every waiting time by `ticks`, to 0 at the least.

    Workers that have done everything are equal from now on. So the turn passes to the first worker
    of the lowest level, counted from the last turn.
    """
    n_workers = times.ticks.size
    best = times.turn[0]
    for j in range(n_workers):
        worker = (times.turn[0] + j) % n_workers
        is_lower = times.ticks[worker] >> _SHIFT < times.ticks[best] >> _SHIFT
        if times.costs[worker] > 0 and (is_lower or times.costs[best] == 0):
            best = worker
    times.turn[0] = best
    for worker in range(n_workers):
        times.ticks[worker] = max(0, times.ticks[worker] - np.int64(ticks))
    regroup(times)


@kernel
def _raise_floor(times: WaitingTimes) -> None:
    """Raise the floor above an empty level; its set now holds the level after the highest."""
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
def _find_at(times: WaitingTimes, allowed: Words, begin: I64, level: I64) -> tuple[I64, U64]:
    """Return the word with the first worker of the set at `level`, in turn, and its bit alone.

    The bit is 0 if there is none. Example: with 4 workers it is the turn of worker 2, and workers
    0, 1 and 3 of the set are at the level, bits 1011. From the turn on there is worker 3, bits
    1000. Before the turn there are 0 and 1, bits 0011. The lowest bit from the turn on comes first:
    worker 3. Only if there were none, the lowest bit before the turn would be next: worker 0.
    """
    n_words = words_for(times.ticks.size)
    row = (level & _MASK) * n_words
    turn = times.turn[0]
    turn_word = turn >> 6
    below = (_ONE << (np.uint64(turn) & _BITS)) - _ONE
    word, found = 0, _ZERO
    later_word, found_later = 0, _ZERO
    for j in range(n_words):  # all of them: no branch to predict
        both = times.sets[row + j] & allowed[begin + j]
        before_turn = both if j < turn_word else (both & below if j == turn_word else _ZERO)
        from_turn = both ^ before_turn
        word = j if found == _ZERO else word
        found = from_turn if found == _ZERO else found
        later_word = j if found_later == _ZERO else later_word
        found_later = before_turn if found_later == _ZERO else found_later
    word = later_word if found == _ZERO else word
    found = found_later if found == _ZERO else found
    return word, found & (~found + _ONE)


@kernel
def _is_empty(times: WaitingTimes, level: I64) -> bool:
    n_words = words_for(times.ticks.size)
    row = (level & _MASK) * n_words
    members = _ZERO
    for j in range(n_words):
        members |= times.sets[row + j]
    return bool(members == _ZERO)


@kernel
def _lowest_level(times: WaitingTimes, allowed: Words, begin: I64) -> I64:
    """Return the lowest level at which a worker of the set is, or −1: they are all stragglers."""
    while _is_empty(times, times.floor[0]):
        _raise_floor(times)
    for level in range(times.floor[0], times.floor[0] + LEVELS):
        _, found = _find_at(times, allowed, begin, level)
        if found != _ZERO:
            return level
    return -1


@kernel
def send_to_least(times: WaitingTimes, allowed: Words, begin: I64) -> I64:
    """Send a record to the worker of the lowest level in the set, the first in turn on a tie.

    The set is as many words as the workers need, from `allowed[begin]` on, and is not empty.
    """
    n_words = words_for(times.ticks.size)
    level = times.floor[0]
    word, found = _find_at(times, allowed, begin, level)
    if found == _ZERO:  # rare: most sets have a worker at the floor
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
    # The next level is known before the worker's number, so the next record need not wait for it.
    times.sets[(level & _MASK) * n_words + word] ^= found
    level += 1
    row = level & _MASK if level - times.floor[0] < LEVELS else LEVELS
    times.sets[row * n_words + word] ^= found
    times.ticks[worker] += TICKS
    return worker


@kernel
def _least_straggler(times: WaitingTimes, allowed: Words, begin: I64) -> I64:
    n_workers = times.ticks.size
    best, best_rank = np.int64(-1), np.int64(0)
    for j in range(words_for(n_workers)):
        left = allowed[begin + j]
        while left != _ZERO:
            worker = 64 * j + lowest_bit(left)
            # By level, then in turn.
            rank = (times.ticks[worker] >> _SHIFT) * n_workers + (
                worker - times.turn[0]
            ) % n_workers
            if best < 0 or rank < best_rank:
                best, best_rank = worker, rank
            left = without_lowest(left)
    return best
