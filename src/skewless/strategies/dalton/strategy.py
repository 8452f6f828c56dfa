"""Dalton: a contextual bandit learns where hot keys go; the others are hashed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import Floats, Keys, Workers, read_only
from skewless.kernels.hashing import hashed_workers, seed_array
from skewless.kernels.merge_history import merge_history
from skewless.parameters import (
    MOST_PLACES,
    MOST_POINTS,
    check_types,
    require,
    require_all_stay,
    require_count,
)
from skewless.state import copy_state
from skewless.strategies.dalton import slides
from skewless.strategies.dalton.bandit import (
    COUNTERS,
    LEVELS,
    Bandit,
    forwards,
    home_of,
    next_window,
    route,
)
from skewless.strategies.dalton.cooperative import merge_into, send_off, share_loads, take_over
from skewless.strategies.dalton.key_counts import (
    KeyCounts,
    exact_counts,
    hybrid_counts,
    sketched_counts,
)
from skewless.strategies.dalton.q_table import q_table, row_values, set_values
from skewless.strategies.dalton.slides import is_on, place_on
from skewless.strategies.dalton.watched_keys import owned_rows, take_row, watched_keys
from skewless.strategy import Traits

_LEAST_REWARD = -2.0
_FIRST_SPLIT_LIMIT = 2
_WINDOWS = 2  # a key that is hot in a statistics window is hot in the next one too
# Fewer than n keys are hot in one window (Theorem 3.4). There are rows for the keys of two windows,
# and as many again for keys that are hot over all sources.
_ROWS_PER_WORKER = 2 * _WINDOWS
# The error of the sketch is 1/8 of the count that makes a key hot. So a key that is taken for hot
# by mistake has at least 7/8 of that count, except with the probability below.
_SKETCH_PARTS = 8
_SKETCH_ERRS = 0.05  # the probability that a count of the sketch is further off than its error
# What a rescale keeps of a state, and of the row of a key.
_KEPT_COUNTERS = ("window", "before", "draws", "told", "in_message", "waiting")
_KEPT_OF_ROWS = ("before", "untold", "frequent", "until", "shared", "deadline")


@dataclass(frozen=True)
class Dalton:
    """Learn for each hot key which workers reward its records; hash the other keys.

    The reward of a worker is high when its recent load is low and the key is on few workers. A hot
    record goes to the worker with the best average reward so far, and sometimes to any worker.
    Workers that were never tried have the worst value, so a key is split only where it pays.
    Sources exchange what is new and continue with what all have learned.

    **Guarantee**: fewer than n keys become hot in a statistics window (Theorem 3.4), and every
    other key has exactly one worker.

    Parameters
    ----------
    learning_rate, exploration
        γ, the step of each average, and ε, the share of hot records that go to any worker.
    load_weight
        p1; the replicas weigh p2 = 1 − p1.
    slide, n_slides
        Loads and replicas count over `n_slides` slides of `slide` records; of all sources, where
        these merge. Use the window over which balance matters. With a much shorter one, a key stays
        too long on a worker that used to be good.
    stats_window
        Records over which keys are counted. A key is hot with more than 1/n of them, in that
        window and the next. Sources that merge judge keys by about this many recent records of all.
    statistics
        `"exact"`, `"count-min"`, or `"hybrid"`: exact in a window after one with at most
        `exact_keys` keys. No window has more keys than records, so it never sketches if
        `exact_keys` is at least `stats_window`.
    max_split
        A key on this many workers explores only those. The limit begins at 2 and grows by one when
        most hot keys have reached it, up to this; None for no limit.
    averaging
        What a merge makes of the values of the sources: `"rewards"`, as if one source had had the
        rewards of all; `"weighted"`, their mean by rewards, as in the paper; `"mean"`, their plain
        mean, as in the authors' program.
    share_loads
        After a merge, a source continues with the loads of all sources.
    by_batch
        Decide for whole batches: frequencies and replicas are those of the batch (section 3.4). On
        Spark a batch is the part of a micro-batch in one task.
    hybrid
        False: every key is hot, as in the paper's ablation; its memory grows with `stats_window`.
    forwarding
        False: all results are merged by key, even those of keys with one worker (section 4.2).

    **Deviations from the paper**: windows count records, replicas are known for hot keys only,
    sources share loads, and a source beside others deals the records of a hot key over the workers
    that are nearly the best, which looks at all workers. The complete list, with reasons, is in
    `docs/strategies/dalton.md`.

    Examples
    --------
    >>> out = np.empty(12, np.int32)
    >>> strategy = Dalton(stats_window=4, exploration=0.5)
    >>> strategy.route(np.zeros(12, np.uint64), strategy.start(4, seed=0), out)
    >>> out.tolist()
    [2, 2, 2, 3, 2, 2, 2, 2, 2, 2, 0, 2]

    References
    ----------
    Zapridou, Mytilinis, Ailamaki, "Dalton: learned partitioning for distributed data streams",
    PVLDB 16(3), 2022: Algorithms 1 and 2, sections 3 and 4.
    """

    name: ClassVar[str] = "dalton"

    learning_rate: float = 0.1
    exploration: float = 0.1
    load_weight: float = 0.5
    slide: int = 1_000
    n_slides: int = 10
    stats_window: int = 10_000
    statistics: Literal["exact", "count-min", "hybrid"] = "hybrid"
    exact_keys: int = 5_000
    max_split: int | None = None
    averaging: Literal["rewards", "weighted", "mean"] = "rewards"
    share_loads: bool = True
    by_batch: bool = False
    hybrid: bool = True
    forwarding: bool = True

    def __post_init__(self) -> None:
        check_types(self)
        require(self, "learning_rate", 0 < self.learning_rate <= 1, "above 0 and at most 1")
        require(self, "exploration", 0 <= self.exploration <= 1, "from 0 to 1")
        require(self, "load_weight", 0 <= self.load_weight <= 1, "from 0 to 1")
        require_count(self, "slide", "stats_window")
        require_count(self, "n_slides", most=MOST_POINTS)
        require_count(self, "exact_keys", most=MOST_PLACES)
        require(
            self, "max_split", self.max_split is None or self.max_split >= 1, "at least 1 or None"
        )

    @property
    def traits(self) -> Traits:
        """Splitting, by record or by batch; a hot key may be on every worker."""
        decides: Literal["record", "batch"] = "batch" if self.by_batch else "record"
        return Traits(
            family="splitting", decides=decides, gathers=self.by_batch, ignores_speeds=True
        )

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> Bandit:
        """Return the state of a source that has sent nothing."""
        n_rows = _WINDOWS * self.stats_window  # every key may be hot
        hot_above = 0.0
        if self.hybrid:
            n_rows = _ROWS_PER_WORKER * n_workers
            hot_above = self.stats_window / n_workers
        most_splits = min(self.max_split or n_workers, n_workers)
        counters, levels = np.zeros(1, COUNTERS), np.zeros(1, LEVELS)
        counters["stats_window"] = self.stats_window
        counters["by_batch"] = self.by_batch
        counters["most_splits"] = counters["split_limit"] = most_splits
        if self.max_split is not None:
            counters["split_limit"] = min(_FIRST_SPLIT_LIMIT, most_splits)
        levels["hot_above"] = levels["watch_above"] = hot_above
        levels["scale"] = 1.0
        levels["rate"] = self.learning_rate
        levels["exploration"] = self.exploration
        levels["load_weight"] = self.load_weight
        levels["replica_weight"] = 1.0 - self.load_weight
        (own_seed,) = seed_array(seed, 1)
        return Bandit(
            # All sources hash a key to the same worker, but explore independently.
            seeds=np.array([own_seed, seed_array(seed, 2 + source)[-1]], np.uint64),
            counters=counters,
            levels=levels,
            counts=self._counts(n_workers, seed),
            window=slides.slide_loads(n_workers, self.slide, self.n_slides),
            merges=merge_history(),
            of_all=np.zeros(n_workers),
            sent=np.zeros(n_workers, np.int64),
            hot=watched_keys(n_rows),
            replicas=slides.replicas(n_rows, n_workers, 1 if self.by_batch else self.n_slides),
            q=q_table(n_rows, n_workers, _LEAST_REWARD),
        )

    def _counts(self, n_workers: int, seed: int) -> KeyCounts:
        epsilon = 1 / (_SKETCH_PARTS * n_workers)
        if self.statistics == "count-min":
            return sketched_counts(epsilon, _SKETCH_ERRS, seed)
        n_keys = self.exact_keys if self.statistics == "hybrid" else self.stats_window
        # No window has more keys than records, so a table for all of them never needs the sketch.
        # A batch may have any number of keys.
        if self.by_batch or n_keys < self.stats_window:
            return hybrid_counts(n_keys, epsilon, _SKETCH_ERRS, seed)
        return exact_counts(self.stats_window)

    def route(self, keys: Keys, state: Bandit, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        route(read_only(keys), state, out)

    def homes(self, keys: Keys, state: Bandit) -> Workers:
        """Return the worker to which each key is hashed while it is cold."""
        return hashed_workers(keys, state.seeds, state.sent.size)

    def forwards(self, keys: Keys, workers: Workers, state: Bandit) -> NDArray[np.bool_]:
        """Return for each record just routed whether its result needs no merging by key.

        It needs none if the key is cold at this source and the record went to its hash worker.
        """
        out = np.zeros(keys.size, np.bool_)
        if self.forwarding:
            forwards(keys, workers, state, out)
        return out

    def wait(self, state: Bandit) -> None:
        """Note that a copy of `state` has been sent: later rewards are kept apart until `fork`.

        The statistics window continues: its end does not depend on messages.
        """
        send_off(state)

    def merge(self, states: Sequence[Bandit]) -> Bandit:
        """Return the keys that are hot over all sources, their values, and the loads of all.

        Replicas and statistics windows stay with each source.
        """
        merged = self.start(states[0].sent.size, 0)
        window = self.slide * self.n_slides
        merge_into(merged, states, hybrid=self.hybrid, window=window, averaging=self.averaging)
        return merged

    def rescale(self, state: Bandit, n_workers: int, capacities: Floats | None = None) -> Bandit:
        """Return the state for another number of workers, with the values of those that stay.

        The paper has none of this. A new statistics window begins. Values, rewards and replicas of
        hot keys at workers that stay are kept, and so are their loads. Differences in speed are
        ignored. Cold keys are hashed to all workers anew, so half of them
        or more change worker.
        """
        require_all_stay(self.name, capacities)
        fresh = self.start(n_workers, 0)
        state = copy_state(state)
        next_window(state)
        n_same = min(n_workers, state.sent.size)
        fresh.seeds[:] = state.seeds
        fresh.counts.sketch.seeds[:] = state.counts.sketch.seeds
        for name in _KEPT_COUNTERS:
            fresh.counters[name] = state.counters[name]
        grown = min(int(state.counters[0]["split_limit"]), int(fresh.counters[0]["most_splits"]))
        fresh.counters["split_limit"] = max(grown, int(fresh.counters[0]["split_limit"]))
        fresh.levels["scale"] = state.levels["scale"]
        if self.hybrid:
            fresh.levels["hot_above"] *= state.levels["scale"]
        fresh.merges.times[:] = state.merges.times
        fresh.merges.sums[:] = state.merges.sums
        fresh.of_all[:n_same] = state.of_all[:n_same]
        fresh.sent[:n_same] = state.sent[:n_same]
        loads = np.zeros(n_workers, np.int64)
        loads[:n_same] = state.window.loads[:n_same]
        slides.fill(fresh.window, loads, int(state.window.counters[0]["slide"]))
        rows = owned_rows(state.hot)
        # There may be fewer rows than before: those of keys that are hot for longest come first.
        for key in sorted(rows, key=lambda key: (-int(state.hot.until[rows[key]]), key)):
            if fresh.hot.n_free[0] > 0:
                _keep_row(fresh, state, np.uint64(key), rows[key], n_same)
        return fresh

    def fork(self, merged: Bandit, own: Bandit, source: int) -> Bandit:
        """Return the state with which a source continues (Alg. 2, l. 17–20).

        It takes over the common table, to which it adds the rewards that it kept apart, the loads
        of all, and the hot keys. Keys that are not hot over all sources are no longer hot.
        """
        state = copy_state(own)
        if not own.counters[0]["waiting"]:
            send_off(state)
        take_over(state, merged, hybrid=self.hybrid)
        if self.share_loads:
            share_loads(state, self.slide)
        return state


def _keep_row(fresh: Bandit, state: Bandit, key: np.uint64, old: int, n_same: int) -> None:
    """Copy the row of a key; its places begin with its new hash worker."""
    n_workers, n_before = fresh.sent.size, state.sent.size
    home = int(home_of(key, fresh.seeds[0], n_workers))
    row = int(take_row(fresh.hot, key, np.int32(home), float(state.hot.counts[old])))
    for name in _KEPT_OF_ROWS:
        getattr(fresh.hot, name)[row] = getattr(state.hot, name)[old]
    workers = np.arange(n_same)
    before = (workers - int(state.hot.homes[old])) % n_before
    now = (workers - home) % n_workers
    values = row_values(fresh.q, row).copy()
    values[now] = row_values(state.q, old)[before]
    set_values(fresh.q, row, values)
    first, first_before = row * int(fresh.q.shape[1]), old * int(state.q.shape[1])
    fresh.q.kept[first + now] = state.q.kept[first_before + before]
    fresh.q.n_kept[first + now] = state.q.n_kept[first_before + before]
    for worker in workers.tolist():
        if is_on(state.replicas, old, worker):
            place_on(fresh.replicas, row, worker)
