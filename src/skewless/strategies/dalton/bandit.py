"""A contextual bandit that routes: hot keys go where their records were rewarded, others by hash.

Dalton's Algorithms 1 and 2 without the messages. `strategies.dalton` has the overview.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import I32, I64, U64, Floats, Ints, Keys, Rows, Words, Workers
from skewless.kernels.hashing import draw, mix, seeded, to_unit, to_worker
from skewless.kernels.key_table import ABSENT, get
from skewless.kernels.merge_history import MergeHistory
from skewless.plumbing.compiling import kernel
from skewless.state import MOST_COUNTED, MOST_WEIGHT, require_same, require_within, within
from skewless.strategies.dalton import slides
from skewless.strategies.dalton.key_counts import KeyCounts, count, forget_counts
from skewless.strategies.dalton.q_table import QTable, best, clear_row, keep, learn
from skewless.strategies.dalton.slides import Replicas, SlideLoads, clear_replicas, is_on, place_on
from skewless.strategies.dalton.watched_keys import WatchedKeys, drop_row, has_owner, take_row

COUNTERS = np.dtype(
    [
        ("window", "i8"),  # number of the statistics window
        ("records", "i8"),  # records in it
        ("before", "i8"),  # records in the window before it
        ("draws", "i8"),  # records so far, each with a random number of its own
        ("told", "i8"),  # of them, those up to the last message to the other sources
        ("in_message", "i8"),  # records that were new in the last message
        ("split_limit", "i8"),  # a key on this many workers explores no further
        ("waiting", "i8"),  # 1 between the message to the others and their answer (AWAIT)
        ("stats_window", "i8"),  # a parameter as the following ones
        ("by_batch", "i8"),
        ("most_splits", "i8"),
    ]
)

LEVELS = np.dtype(
    [
        ("hot_above", "f8"),  # records in the window that make a key hot
        ("watch_above", "f8"),  # records in the window that make a key worth a row
        ("scale", "f8"),  # records of all sources for each of this one, in its merges
        ("rate", "f8"),  # γ, a parameter as the following ones
        ("exploration", "f8"),  # ε
        ("load_weight", "f8"),  # p1
        ("replica_weight", "f8"),  # p2
    ]
)

_SEVERAL = 1.5  # the scale from which a source has others beside it
# Values of workers in use differ by steps of learning: by more of them, the more sources learn at
# once. Fewer steps let sources herd, more ignore what was learned: chosen on one Zipf stream (1.4)
# with 16 workers and 1 to 256 sources.
_SOURCES_PER_STEP = 32.0
_MOST_STEPS = 2.0
_CROWDED = 0.7  # the part of the hot keys at the split limit from which the limit rises


@within(0, MOST_COUNTED, "counters", "sent")
@within(0, MOST_WEIGHT, "of_all")
class Bandit(NamedTuple):
    """Statistics of the keys, the window of loads, and what was learned about hot keys."""

    seeds: Words  # of the hash, of the exploration
    counters: Rows  # [1]
    levels: Rows  # [1]
    counts: KeyCounts  # of keys without a row
    window: SlideLoads
    merges: MergeHistory
    of_all: Floats  # per worker: faded records of all sources, at the last merge
    sent: Ints  # per worker: own records since the last message
    hot: WatchedKeys
    replicas: Replicas  # of the keys with a row
    q: QTable

    def check(self, fresh: Bandit) -> None:
        """Refuse other parameters, and workers that do not exist."""
        require_same("seeds", self.seeds[:1], fresh.seeds[:1])
        parameters = ["stats_window", "by_batch", "most_splits"]
        require_same("counters", self.counters[parameters], fresh.counters[parameters])
        parameters = ["rate", "exploration", "load_weight", "replica_weight"]
        require_same("levels", self.levels[parameters], fresh.levels[parameters])
        n_workers = self.window.loads.size
        require_within("counters", self.counters["split_limit"], 1, n_workers)
        require_within("counters", self.counters["waiting"], 0, 1)
        require_within("levels", self.levels[["hot_above", "watch_above", "scale"]], 0, MOST_WEIGHT)
        require_within("hot.homes", self.hot.homes, 0, n_workers - 1)


@kernel
def home_of(key: U64, seed: U64, n_workers: I64) -> I32:
    """Return the worker to which a cold key is hashed."""
    return to_worker(seeded(key, seed), n_workers)


@kernel
def next_window(state: Bandit) -> None:
    """Begin the next statistics window; keys that were hot in neither of the last two are cold.

    A key that is no longer hot keeps its row if it had enough records in the last window.
    """
    counters = state.counters[0]
    hot = state.hot
    counters["before"] = counters["records"]
    counters["window"] += 1
    counters["records"] = 0
    n_hot = 0
    n_full = 0
    for row in range(hot.keys.size):
        if has_owner(hot, row):
            if hot.counts[row] > state.levels[0]["watch_above"]:
                hot.frequent[row] = counters["window"] - 1
            hot.before[row] = hot.counts[row]
            hot.untold[row] += hot.counts[row]
            hot.counts[row] = 0.0
            if max(hot.until[row], hot.frequent[row] + 1) < counters["window"]:
                drop_row(hot, row)
            elif hot.until[row] >= counters["window"]:
                n_hot += 1
                n_full += np.int64(state.replicas.widths[row] >= counters["split_limit"])
    forget_counts(state.counts)
    is_crowded = n_hot > 0 and n_full >= _CROWDED * n_hot
    if is_crowded and counters["split_limit"] < counters["most_splits"]:
        counters["split_limit"] += 1


@kernel
def _observe(state: Bandit, key: U64) -> I64:
    """Count a record; return the row of its key if that is hot, or ABSENT (Alg. 1, l. 1–3)."""
    hot, levels, window = state.hot, state.levels[0], state.counters[0]["window"]
    row = np.int64(get(hot.table, key))
    if row != ABSENT:
        hot.counts[row] += 1.0
    else:
        frequency = count(state.counts, key)
        if frequency <= levels["watch_above"]:
            return row
        home = home_of(key, state.seeds[0], state.sent.size)
        row = take_row(hot, key, home, frequency)
        if row == ABSENT:
            return row
        clear_row(state.q, row)
        clear_replicas(state.replicas, row)
    if hot.until[row] <= window and hot.counts[row] > levels["hot_above"]:
        turns_hot = hot.until[row] < window and hot.counts[row] > 1.0
        if turns_hot and not state.counters[0]["by_batch"]:
            # Its records so far were hashed.
            place_on(state.replicas, row, np.int64(hot.homes[row]))
        hot.until[row] = window + 1
    return row if hot.until[row] >= window else np.int64(ABSENT)


@kernel
def _hot_row(state: Bandit, key: U64) -> I64:
    """Return the row of a key that is hot, or ABSENT."""
    row = np.int64(get(state.hot.table, key))
    if row != ABSENT and state.hot.until[row] < state.counters[0]["window"]:
        return np.int64(ABSENT)
    return row


@kernel
def _explore(state: Bandit, row: I64, bits: U64) -> I64:
    """Return a random worker; at the split limit, a random one of those that have the key."""
    n_workers = state.window.loads.size
    width = np.int64(state.replicas.widths[row])
    if width < state.counters[0]["split_limit"] or width == n_workers:
        return np.int64(to_worker(bits, n_workers))
    skip = np.int64(to_worker(bits, width))
    for worker in range(n_workers):
        if is_on(state.replicas, row, worker):
            if skip == 0:
                return np.int64(worker)
            skip -= 1
    return np.int64(state.hot.homes[row])


@kernel
def _dealt(state: Bandit, row: I64, first: I64, bits: U64) -> I64:
    """Draw two of the places that are nearly the best, and return the one with less load.

    Sources that begin with the same values would all send the key's records to the same worker
    until each of them has learned by itself that it is full.
    """
    n_workers, levels = state.sent.size, state.levels[0]
    at = row * state.q.shape[1]
    margin = min(levels["scale"] / _SOURCES_PER_STEP, _MOST_STEPS) * levels["rate"]
    least = state.q.values[at + first] - margin
    n_alike = 0
    for place in range(n_workers):
        n_alike += np.int64(state.q.values[at + place] >= least)
    one = np.int64(to_worker(bits, n_alike))
    other = np.int64(to_worker(mix(bits), n_alike))
    home = np.int64(state.hot.homes[row])
    chosen = first
    fewest = np.int64(-1)
    for place in range(n_workers):
        if state.q.values[at + place] >= least:
            if one == 0 or other == 0:
                worker = (home + place) % n_workers
                if fewest < 0 or state.window.loads[worker] < fewest:
                    fewest = state.window.loads[worker]
                    chosen = place
            one -= 1
            other -= 1
    return chosen


@kernel
def _decide(state: Bandit, row: I64, i: I64) -> I64:
    """Choose the worker of hot record `i` of the run, and learn from it (Alg. 1, l. 4–6, 9)."""
    n_workers, levels = state.sent.size, state.levels[0]
    bits = draw(state.seeds[1], state.counters[0]["draws"] + i)
    home = np.int64(state.hot.homes[row])
    if to_unit(bits) < levels["exploration"]:
        worker = _explore(state, row, mix(bits))
        place = worker - home
        place += n_workers * np.int64(place < 0)
    else:
        place = best(state.q, row)
        if levels["scale"] >= _SEVERAL:
            place = _dealt(state, row, place, mix(bits))
        worker = home + place
        worker -= n_workers * np.int64(worker >= n_workers)
    # Eq. 3, numerator and denominator times n, and eq. 4; both with the record just placed.
    state.window.loads[worker] += 1
    state.sent[worker] += 1
    load = n_workers * state.window.loads[worker]
    total = state.window.counters[0]["total"] + i + 1
    width = place_on(state.replicas, row, worker)
    reward = -(
        levels["load_weight"] * ((load - total) / max(load, total, 1))
        + levels["replica_weight"] * (width / n_workers)
    )
    keep(state.q, row, place, reward, levels["rate"])
    learn(state.q, row, place, reward, levels["rate"])  # even while an answer is awaited
    return worker


@kernel
def _begin_batch(keys: Keys, state: Bandit) -> None:
    """Begin a batch: a statistics window of known length, within which replicas are counted."""
    next_window(state)
    slides.next_slide(state.replicas)
    if state.levels[0]["watch_above"] > 0.0:  # else all keys are hot
        share = keys.size / state.window.loads.size
        state.levels[0]["watch_above"] = share
        state.levels[0]["hot_above"] = state.levels[0]["scale"] * share
    state.counters[0]["records"] = keys.size


@kernel
def route(keys: Keys, state: Bandit, out: Workers) -> None:
    """Route in runs that end where a slide or a statistics window does.

    Which keys are hot does not depend on where records went. So one loop finds the row of every
    record of a run, and a second loop sends the records. Two short loops are faster than a long
    one, because the processor can work on several records at a time in each.
    """
    rows = out  # the same array: it holds the row of a record until its worker replaces it
    by_batch = state.counters[0]["by_batch"]
    if by_batch and keys.size > 0:
        _begin_batch(keys, state)
    begin = 0
    while begin < keys.size:
        if not by_batch and state.counters[0]["records"] >= state.counters[0]["stats_window"]:
            next_window(state)
        if slides.expire(state.window) and not by_batch:
            slides.next_slide(state.replicas)
        end = min(keys.size, begin + slides.room(state.window))
        if not by_batch:
            end = min(end, begin + state.counters[0]["stats_window"] - state.counters[0]["records"])
            state.counters[0]["records"] += end - begin
        if not by_batch or begin == 0:
            for i in range(begin, keys.size if by_batch else end):
                rows[i] = _observe(state, keys[i])
        if by_batch:  # a key may have turned hot by a later record
            for i in range(begin, end):
                rows[i] = _hot_row(state, keys[i])
        for i in range(begin, end):
            row = np.int64(rows[i])
            if row != ABSENT:
                out[i] = _decide(state, row, i - begin)
            else:  # Alg. 1, l. 8
                worker = home_of(keys[i], state.seeds[0], state.sent.size)
                state.window.loads[worker] += 1
                state.sent[worker] += 1
                out[i] = worker
        slides.advance(state.window, end - begin)
        state.counters[0]["draws"] += end - begin
        begin = end


@kernel
def forwards(keys: Keys, workers: Workers, state: Bandit, out: NDArray[np.bool_]) -> None:
    """Fill `out` with whether the key of each record is cold and its worker is the key's home."""
    for i in range(keys.size):
        is_hot = _hot_row(state, keys[i]) != ABSENT
        home = home_of(keys[i], state.seeds[0], state.window.loads.size)
        out[i] = not is_hot and workers[i] == home
