"""FISH: hot keys of the recent past, as many workers as each needs, the one who waits least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from skewless._jit import kernel
from skewless.arrays import F64, I32, I64, U64, Floats, Ints, Keys, SmallInts, Words, Workers
from skewless.kernels.bits import words_for
from skewless.kernels.hashing import mix, seed_array, seeded, to_worker, two_workers
from skewless.kernels.key_table import get
from skewless.kernels.ring import Ring, candidates, find_point, ring
from skewless.kernels.sorting import sort_descending
from skewless.kernels.space_saving import SpaceSaving, decay, entries, merge, offer, space_saving
from skewless.kernels.waiting import TICKS, Waiting, least_waiting, pass_time, regroup, send, waiting
from skewless.parameters import require
from skewless.state import copy_state
from skewless.strategies.d_choices import fewest_choices
from skewless.strategy import Traits

# Positions in `counters`.
IN_EPOCH = 0  # records of the current epoch
SINCE = 1  # records since the clock was last set
UNTIL = 2  # the value of SINCE at which waiting times are estimated again
FEWEST = 3  # d_min
# Positions in `clock`, all in seconds.
ESTIMATED = 0  # t_pri: when waiting times were last estimated
SET = 1  # the time when SINCE was 0
STEP = 2  # what one record adds to the time
TICK = 3  # what one tick of a waiting time is
_NEVER = np.int64(2**62)
_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_BITS = np.uint64(63)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class FishState(NamedTuple):
    """Recent keys with their candidates, and how long each worker will be busy."""

    seeds: Words  # of the hash, of the ring
    ring: Ring  # of one point when hashing is modulo n
    summary: SpaceSaving
    top: Floats  # [the largest stored count]
    row_keys: Keys  # per entry of the summary: whose row this is
    granted: SmallInts  # per entry: M_k, candidates in the row
    rows: Words  # per entry: the candidates as a set of workers
    waiting: Waiting
    counters: Ints
    clock: Floats
    settings: Floats  # θ, α, records of an epoch, T, ε
    modes: Ints  # how hot keys are classified, whether by ring
    shares: Floats  # scratch
    walked: Workers  # scratch


CHK, ALL, FEWEST_ONLY = 0, 1, 2


@kernel
def _summarise(state: FishState) -> None:
    """Find f_top, and d_min as D-Choices does: from the shares of all hot keys."""
    summary = state.summary
    records = max(summary.total[0], state.settings[2] * summary.unit[0])
    hot = state.settings[0] * records
    n_hot = 0
    top = 0.0
    for entry in range(summary.size[0]):
        count = summary.counts[entry]
        top = max(top, count)
        if count > hot:
            state.shares[n_hot] = count / records
            n_hot += 1
    state.top[0] = top
    sort_descending(state.shares, n_hot)
    n_workers = state.waiting.ticks.size
    fewest = fewest_choices(state.shares, n_hot, n_workers, state.settings[4])
    state.counters[FEWEST] = min(fewest, n_workers)


@kernel
def _end_epoch(state: FishState) -> None:
    """Alg. 1, l. 5–7 and 23–26."""
    _summarise(state)
    unit = state.summary.unit[0] / state.settings[1]
    decay(state.summary, state.settings[1])
    if state.summary.unit[0] < unit:  # stored counts were brought back to today's unit
        state.top[0] /= unit
    state.counters[IN_EPOCH] = 0


@kernel
def _estimate(state: FishState) -> None:
    """Alg. 3, l. 4–10."""
    now = state.clock[SET] + state.counters[SINCE] * state.clock[STEP]
    pass_time(state.waiting, np.floor((now - state.clock[ESTIMATED]) / state.clock[TICK]))
    state.clock[ESTIMATED] = state.clock[SET] = now
    state.counters[SINCE] = 0
    state.counters[UNTIL] = np.int64(np.floor(state.settings[3] / state.clock[STEP])) + 1


@kernel
def _fill_row(state: FishState, entry: I64, key: U64, d: I64) -> None:
    """Write the first d candidates of `key` into the row of its entry."""
    n_workers = state.waiting.ticks.size
    n_words = (n_workers + 63) >> 6
    begin = entry * n_words
    for j in range(n_words):
        state.rows[begin + j] = _ZERO
    hashed = seeded(key, state.seeds[0])
    if state.modes[1] == 1 and d < n_workers:
        candidates(state.ring, hashed, d, state.walked)
    for j in range(d):
        worker = np.int64(state.walked[j])
        if d >= n_workers:
            worker = np.int64(j)
        elif state.modes[1] == 0:
            worker = np.int64(to_worker(mix(hashed + np.uint64(j) * _GOLDEN), n_workers))
        state.rows[begin + (worker >> 6)] |= _ONE << (np.uint64(worker) & _BITS)
    state.row_keys[entry] = key
    state.granted[entry] = d


@kernel
def _hot_worker(state: FishState, key: U64, count: F64) -> I64:
    """Alg. 2, l. 3–10, and Alg. 3, l. 12–17."""
    entry = np.int64(get(state.summary.table, key))
    known = state.row_keys[entry] == key
    granted = np.int64(state.granted[entry]) if known else np.int64(0)
    fewest = state.counters[FEWEST]
    d = np.int64(state.waiting.ticks.size)
    if state.modes[0] == CHK:
        fewest = max(fewest, granted)
        count *= 2.0
        while d > fewest and count <= state.top[0]:
            d >>= 1
            count *= 2.0
        d = max(d, fewest)
    elif state.modes[0] == FEWEST_ONLY:
        d = fewest
    if d != granted:
        _fill_row(state, entry, key, d)
    return least_waiting(state.waiting, state.rows, entry * ((state.waiting.ticks.size + 63) >> 6))


@kernel
def _cold_worker(state: FishState, key: U64) -> I64:
    """Return the one of two candidates who waits less, the first on a tie."""
    hashed = seeded(key, state.seeds[0])
    ticks = state.waiting.ticks
    if state.modes[1] == 1:
        first, second = next_two(state.ring, hashed)
    else:
        first, second = two_workers(hashed, ticks.size)
    return np.int64(second if ticks[second] < ticks[first] else first)


@kernel
def next_two(ring: Ring, hashed: U64) -> tuple[I32, I32]:
    """Return the first two distinct workers clockwise; twice the same if there is but one."""
    n_points = ring.positions.size - 1
    point = find_point(ring, hashed)
    first = ring.workers[point]
    for _ in range(n_points):
        point += 1
        if point >= n_points:
            point -= n_points
        if ring.workers[point] != first:
            break
    return first, ring.workers[point]


@kernel
def _route(keys: Keys, state: FishState, out: Workers) -> None:
    summary = state.summary
    counters = state.counters
    i = 0
    while i < keys.size:
        if counters[IN_EPOCH] >= np.int64(state.settings[2]):
            _end_epoch(state)
        if counters[SINCE] >= counters[UNTIL]:
            _estimate(state)
        left = min(np.int64(state.settings[2]) - counters[IN_EPOCH], counters[UNTIL] - counters[SINCE])
        end = min(keys.size, i + left)
        counters[IN_EPOCH] += end - i
        counters[SINCE] += end - i
        unit = summary.unit[0]
        least_records = state.settings[2] * unit
        theta = state.settings[0]
        while i < end:
            count = offer(summary, keys[i], 1.0) * unit
            state.top[0] = max(state.top[0], count)
            if count > theta * max(summary.total[0], least_records):
                worker = _hot_worker(state, keys[i], count)
            else:
                worker = _cold_worker(state, keys[i])
            send(state.waiting, worker)
            out[i] = worker
            i += 1


@dataclass(frozen=True)
class Fish:
    name: ClassVar[str] = "fish"

    alpha: float = 0.2
    epoch: int = 1_000
    capacity: int = 1_000
    hot_factor: float = 0.25
    classification: Literal["chk", "w-choices", "d-choices"] = "chk"
    epsilon: float = 1e-4
    heuristic: bool = True
    interval: float = 10.0
    seconds_per_record: float = 0.001
    utilisation: float = 0.9
    ring: bool = True
    virtual_nodes: int = 128

    @property
    def traits(self) -> Traits:
        """A hot key may be anywhere."""
        return Traits(family="splitting")

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> FishState:
        return self._start(seed_array(seed, 2), n_workers, np.ones(n_workers))

    def _start(self, seeds: Words, n_workers: int, capacities: Floats) -> FishState:
        n_points = (n_workers, self.virtual_nodes) if self.ring else (1, 1)
        seconds = self.seconds_per_record / (capacities if self.heuristic else np.ones(n_workers))
        step = 1.0 / (self.utilisation * (1.0 / seconds).sum())
        return FishState(
            seeds=seeds,
            ring=ring(n_points[0], int(seeds[1]), virtual_nodes=n_points[1]),
            summary=space_saving(self.capacity),
            top=np.zeros(1),
            row_keys=np.zeros(self.capacity, np.uint64),
            granted=np.zeros(self.capacity, np.int32),
            rows=np.zeros(self.capacity * words_for(n_workers), np.uint64),
            waiting=waiting(seconds),
            counters=np.array([0, 0, int(self.interval / step) + 1 if self.heuristic else _NEVER, min(2, n_workers)]),
            clock=np.array([0.0, 0.0, step, float(seconds.min()) / TICKS]),
            settings=np.array([self.hot_factor / n_workers, self.alpha, self.epoch, self.interval, self.epsilon]),
            modes=np.array([["chk", "w-choices", "d-choices"].index(self.classification), int(self.ring)]),
            shares=np.zeros(self.capacity),
            walked=np.zeros(n_workers, np.int32),
        )

    def route(self, keys: Keys, state: FishState, out: Workers) -> None:
        _route(keys, state, out)

    def rescale(self, state, n_workers, capacities=None):
        return self._start(state.seeds, n_workers, np.ones(n_workers) if capacities is None else capacities)
