"""DAGreedy: hot keys stay with their workers unless another one is lighter by a mean load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from skewless.arrays import I32, I64, U64, Ints, Keys, Rows, SmallInts, Words, Workers, read_only
from skewless.kernels.bits import add_worker, lowest_bit, without_lowest, words_for
from skewless.kernels.hashing import seed_array, seeded, to_worker
from skewless.kernels.key_table import (
    ABSENT,
    KeyTable,
    clear,
    find_slot,
    key_table,
    remove_slot,
    require_entries,
)
from skewless.kernels.least_loaded import floor_cursor, least_count, require_cursor
from skewless.parameters import MOST_PLACES, check_types, require_count
from skewless.plumbing.compiling import kernel
from skewless.state import MOST_COUNTED, fixed, require_that, require_within, require_workers, zeros
from skewless.strategies.rescaling import HashedHomes
from skewless.strategy import Traits

COUNTERS = np.dtype([("records", "i8"), ("n_free", "i8")])  # records so far, unused rows
# Records of an interval; a key with more than `hot_above` of them is hot.
SETTINGS = np.dtype([("interval", "i8"), ("hot_above", "i8")])

_UNUSED = -9  # no interval, nor two before one
_UNKNOWN = -1  # a floor below all loads: the next search scans all holders
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_BITS = np.uint64(63)


@fixed("seed", "settings")
class DAGreedyState(NamedTuple):
    """Counts of this interval, the hot keys' rows, and the loads."""

    seed: Words
    loads: Ints
    floor: Ints
    counts: KeyTable  # key -> its records in this interval
    rows: KeyTable  # hot key -> its row
    row_keys: Words
    row_interval: Ints  # the last interval in which the row's key was hot
    row_floor: Ints  # no holder of the row has a smaller load
    row_cursor: Ints  # no holder before this worker is at the floor
    holders: Words  # one set of workers per row
    free: SmallInts  # stack of unused rows
    counters: Rows  # [1]
    settings: Rows  # [1]

    def check(self, fresh: DAGreedyState) -> None:
        """Refuse rows, cursors and holders that do not exist, and counts that contradict them."""
        require_cursor(self.loads, self.floor)
        n_workers, n_rows = self.loads.size, self.row_keys.size
        require_within("row_cursor", self.row_cursor, 0, n_workers - 1)
        require_workers("holders", self.holders, n_workers)
        require_within("counters", self.counters["records"], 0, MOST_COUNTED)
        require_within("counters", self.counters["n_free"], 0, n_rows)
        free = self.free[: int(self.counters[0]["n_free"])]
        require_entries(self.rows, self.row_keys, free)
        # There are not enough rows for more hot keys than an interval can have.
        (length, hot_above), (n_records, _) = self.settings[0].tolist(), self.counters[0].tolist()
        before = max(0, n_records - 1) // length
        counted = self.counts.values[self.counts.values != ABSENT].astype(np.int64)
        in_interval = n_records - before * length
        require_that(
            counted.sum() == in_interval, "counts must be those of this interval's records"
        )
        require_within("counts", counted, 1, length)
        require_within("row_interval", self.row_interval[free], _UNUSED, _UNUSED)
        used = np.delete(self.row_interval, free)
        require_within("row_interval", used, max(0, before - 1), before)
        n_hot = np.count_nonzero(counted > hot_above)
        require_that(np.count_nonzero(used == before) <= n_hot, "rows must be those of hot keys")
        require_that(
            np.count_nonzero(used < before) <= length // (hot_above + 1),
            "rows must not be more than an interval can have hot keys",
        )


@kernel
def _begin_interval(state: DAGreedyState, interval: I64) -> None:
    """Forget the counts, and the rows of keys that were not hot in the interval before."""
    clear(state.counts)
    for row in range(state.row_keys.size):
        if state.row_interval[row] == interval - 2:
            remove_slot(state.rows, find_slot(state.rows, state.row_keys[row]))
            state.row_interval[row] = _UNUSED
            state.free[state.counters[0]["n_free"]] = row
            state.counters[0]["n_free"] += 1


@kernel
def _row_of(state: DAGreedyState, key: U64, count: I64, home: I32, interval: I64) -> I64:
    """Return the row of a hot key; a new row has the key's hash worker if it had cold records."""
    slot = find_slot(state.rows, key)
    row = np.int64(state.rows.values[slot])
    if row == ABSENT:
        state.counters[0]["n_free"] -= 1
        row = np.int64(state.free[state.counters[0]["n_free"]])
        state.rows.keys[slot] = key
        state.rows.values[slot] = row
        state.row_keys[row] = key
        n_words = state.holders.size // state.row_keys.size
        state.holders[row * n_words : (row + 1) * n_words] = _ZERO
        state.row_floor[row] = _UNKNOWN
        if count > 1:
            add_worker(state.holders[row * n_words : (row + 1) * n_words], home)
    state.row_interval[row] = interval
    return row


@kernel
def _lightest(holders: Words, loads: Ints, floor: Ints, cursor: Ints, row: I64) -> I64:
    """Return the least loaded holder of a row, the lowest index on a tie; ABSENT without any.

    Loads only grow, so the idea of `least_count` works here too: no holder is below the row's
    floor and none before its cursor is at it. The first holder at the floor, from the cursor on,
    is the answer; without one, a scan of all holders finds it, the new floor and the new cursor.
    """
    first = cursor[row] >> 6
    passed = (_ONE << (np.uint64(cursor[row]) & _BITS)) - _ONE
    for w in range(first, holders.size):
        word = holders[w]
        if w == first:
            word &= ~passed
        while word != _ZERO:
            worker = 64 * w + lowest_bit(word)
            if loads[worker] == floor[row]:
                cursor[row] = worker
                return worker
            word = without_lowest(word)
    best = ABSENT
    for w in range(holders.size):
        word = holders[w]
        while word != _ZERO:
            worker = 64 * w + lowest_bit(word)
            if best == ABSENT or loads[worker] < loads[best]:
                best = worker
            word = without_lowest(word)
    if best != ABSENT:
        floor[row] = loads[best]
        cursor[row] = best
    return best


@kernel
def _best(holder: I64, least: I64, loads: Ints, total: I64) -> I64:
    """Return the worker with the highest score, the lowest index on a tie.

    score(i) = ½·[i holds the key] − ½·(L_i − mean)/mean. Among holders, and among all workers, the
    lighter one always scores higher: only the lightest of each can win. The holder wins against a
    lighter worker while it is less than one mean load above it; in integers, so that it is exact.
    """
    if holder == ABSENT:
        return least
    gap = (loads[holder] - loads[least]) * loads.size
    if gap < total or (gap == total and holder < least):
        return holder
    return least


@kernel
def _route(keys: Keys, state: DAGreedyState, out: Workers) -> None:
    seed, loads = state.seed[0], state.loads
    length, hot_above = state.settings[0]["interval"], state.settings[0]["hot_above"]
    n_words = state.holders.size // state.row_keys.size
    for i in range(keys.size):
        total = state.counters[0]["records"]
        interval = total // length
        if total == interval * length and total > 0:
            _begin_interval(state, interval)
        slot = find_slot(state.counts, keys[i])
        count = max(np.int64(state.counts.values[slot]), 0) + 1  # ABSENT is below 0
        state.counts.keys[slot] = keys[i]
        state.counts.values[slot] = count
        worker = np.int64(to_worker(seeded(keys[i], seed), loads.size))
        if count > hot_above:
            row = _row_of(state, keys[i], count, worker, interval)
            holders = state.holders[row * n_words : (row + 1) * n_words]
            holder = _lightest(holders, loads, state.row_floor, state.row_cursor, row)
            worker = _best(holder, least_count(loads, state.floor), loads, total)
            if worker != holder:
                add_worker(holders, worker)
                state.row_floor[row] = _UNKNOWN
        loads[worker] += 1
        state.counters[0]["records"] += 1
        out[i] = worker


@dataclass(frozen=True)
class DAGreedy(HashedHomes):
    """Give a hot key to a new worker only when its own workers are a mean load heavier.

    Each hot record goes to the worker with the best score: half for already holding the key, minus
    half of its load above the mean. Cold keys are hashed.

    **Guarantee**: a hot key never goes to a worker that does not hold it while one that does is
    less than a mean load above the lightest. So replicas are few, and balance is coarse.

    Parameters
    ----------
    interval
        Records of this source over which keys are counted.
    hot_divisor
        A key is hot with more than `interval` / (`hot_divisor` · n) records in the interval.

    **Deviations from the paper**: what makes a key hot is a share of the previous interval's
    records; intervals are counted in records here, so that is a constant, in the first interval as
    well. A hot key's workers are remembered through the next interval in which it is not hot. The
    best score is found from the lightest holder and the lightest worker instead of all scores.

    Examples
    --------
    >>> out = np.empty(6, np.int32)
    >>> strategy = DAGreedy(interval=100)
    >>> strategy.route(np.zeros(6, np.uint64), strategy.start(4, seed=0), out)
    >>> out.tolist()
    [0, 1, 2, 3, 0, 1]

    References
    ----------
    Pacaci, Özsu, "Distribution-aware stream partitioning for distributed stream processing
    systems", BeyondMR 2018; also a baseline of Dalton.
    """

    name: ClassVar[str] = "dagreedy"
    traits: ClassVar[Traits] = Traits(family="splitting", ignores_speeds=True)

    interval: int = 100_000
    hot_divisor: int = 100

    def __post_init__(self) -> None:
        check_types(self)
        require_count(self, "interval", "hot_divisor", most=MOST_PLACES)

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> DAGreedyState:
        """Return the state of a source that has sent nothing."""
        hot_above = self.interval // (self.hot_divisor * n_workers)
        # At most interval / (hot_above + 1) keys are hot in one interval. A row lasts for two.
        n_rows = 2 * (self.interval // (hot_above + 1)) + 1
        loads = np.zeros(n_workers, np.int64)
        return zeros(
            DAGreedyState,
            n_rows,
            seed=seed_array(seed, 1),
            loads=loads,
            floor=floor_cursor(loads),
            counts=key_table(self.interval),
            rows=key_table(n_rows),
            row_interval=np.full(n_rows, _UNUSED, np.int64),
            row_floor=np.full(n_rows, _UNKNOWN, np.int64),
            holders=n_rows * words_for(n_workers),
            free=np.arange(n_rows, dtype=np.int32),
            counters=np.array([(0, n_rows)], COUNTERS),
            settings=np.array([(self.interval, hot_above)], SETTINGS),
        )

    def route(self, keys: Keys, state: DAGreedyState, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        _route(read_only(keys), state, out)
