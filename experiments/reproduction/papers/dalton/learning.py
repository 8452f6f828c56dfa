"""Dalton's statistics by the clock (10a, 10b), forced hot keys (10c), adaptive exchanges (14b)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.records import Row
from experiments.reproduction.cells import keys_of, side_by_side
from experiments.reproduction.figure import cell
from experiments.reproduction.papers.dalton.pipeline import EMIT, SCORE, Pipeline
from skewless import registry, workloads
from skewless.arrays import I64, Keys, Workers
from skewless.plumbing.compiling import kernel
from skewless.simulator import Sync, simulate
from skewless.state import state_bytes
from skewless.strategies.dalton import key_counts
from skewless.strategies.dalton.bandit import Bandit, home_of
from skewless.strategies.dalton.watched_keys import ALWAYS, take_row
from skewless.strategy import AnyStrategy

_STATISTICS = ("exact", "count-min", "hybrid")


@kernel
def _count_all(keys: Keys, counts: key_counts.KeyCounts, window: I64) -> None:
    for i in range(keys.size):
        if i % window == 0:
            key_counts.forget_counts(counts)
        key_counts.count(counts, keys[i])


@cell
def clocked_counts(z: float, n_records: int, windows: list[int], seed: int) -> Row:
    """Seconds per record of each of Dalton's statistics, by the length of its window, in one run.

    Its row has them as lists, with the bytes of each, and those of the first and the last window.
    """
    n_keys, exact_keys, epsilon, delta = 100_000, 5_000, 1 / (8 * 56), 0.05
    keys = keys_of("zipf", {"z": z, "n_keys": n_keys, "n_records": n_records}, seed)

    def empty(kind: str, window: int) -> key_counts.KeyCounts:
        room = min(window, n_keys)  # a table has room for the keys that there are
        if kind == "count-min":
            return key_counts.sketched_counts(epsilon, delta, seed)
        if kind == "hybrid" and exact_keys < room:
            return key_counts.hybrid_counts(exact_keys, epsilon, delta, seed)
        return key_counts.exact_counts(room)

    def counter(kind: str, window: int) -> Callable[[int], object]:
        counts = empty(kind, window)
        return lambda i: _count_all(keys, counts, window)

    both = [(kind, window) for window in windows for kind in _STATISTICS]
    seconds = side_by_side({f"{kind} {n}": counter(kind, n) for kind, n in both}, n_times=3)
    row: Row = {"windows": windows}
    for kind in _STATISTICS:
        times = [seconds[f"{kind} {window}"] / n_records for window in windows]
        row |= {kind: times, f"{kind} shortest": times[0], f"{kind} longest": times[-1]}
        sizes = [state_bytes(empty(kind, window)) for window in windows]
        row |= {f"{kind} bytes": sizes, f"{kind} most bytes": sizes[-1]}
    return row


@dataclass(frozen=True)
class ForcedHotKeys(Pipeline):
    """Dalton on one stream whose `n_hot` most frequent keys are hot from the start, and no other.

    A partitioner then takes a look-up for each record, and for a hot one it compares the values of
    all workers, as the paper's Algorithm 1 does.
    """

    n_hot: int = 4

    def run(self) -> Row:
        """Return the row of `Pipeline`, with the values compared."""
        keys = keys_of(self.workload, self.of, self.seed)
        values = float(np.isin(keys, _top(keys, self.n_hot)).mean()) * self.n_workers
        timed = replace(self, emit=EMIT + values * SCORE)
        return {**Pipeline.run(timed), "values_per_record": values}

    def routed(self, strategy: AnyStrategy, keys: Keys) -> Workers:
        """Return the worker of each record."""
        state: Bandit = strategy.start(self.n_workers, self.seed)
        for key in _top(keys, self.n_hot):
            home = home_of(key, state.seeds[0], self.n_workers)
            row = int(take_row(state.hot, key, home, 0.0))
            if row < 0:
                raise ValueError(f"n_hot: {self.n_hot} keys are more than Dalton has rows")
            state.hot.until[row] = ALWAYS
        state.levels["hot_above"] = state.levels["watch_above"] = keys.size + 1
        out = np.full(keys.size, -1, np.int32)
        strategy.route(keys, state, out)
        return out


@cell
def found_hot_keys(z: float, n_keys: int, n_records: int, stats_window: int, seed: int) -> Row:
    """How many keys of a Zipf stream Dalton itself finds hot, in an average statistics window."""
    strategy = registry.make("dalton", stats_window=stats_window, statistics="exact")
    state: Bandit = strategy.start(56, seed)
    keys = keys_of("zipf", {"z": z, "n_keys": n_keys, "n_records": n_records}, seed)
    out = np.empty(stats_window, np.int32)
    found = []
    for begin in range(0, keys.size - stats_window + 1, stats_window):
        strategy.route(keys[begin : begin + stats_window], state, out)
        found.append(int((state.hot.counts > state.levels[0]["hot_above"]).sum()))
    return {"hot_keys": float(np.mean(found))}


def _top(keys: Keys, n: int) -> Keys:
    """Return the `n` most frequent keys, the most frequent first."""
    known, counts = np.unique(keys, return_counts=True)
    return known[np.argsort(-counts, kind="stable")[:n]]


@cell
def adapting(strategy: str, phase: int, interval: int, adaptive: bool, seed: int) -> Row:
    """Two partitioners whose interval adapts while their reducer becomes slower and faster.

    Times are in seconds of ten records of each partitioner. The reducer takes six seconds, twice
    as long in the second phase, four times as long in the third, and six in the last.
    """
    factors, n_sources, n_workers, rounds = (1.0, 2.0, 4.0, 1.0), 2, 56, 10
    rounds_per_phase = phase * rounds

    def work(begin: int) -> int:
        number = min(begin // rounds_per_phase, len(factors) - 1)
        return round(6.0 * factors[number] * rounds)

    result = simulate(
        registry.make(strategy),
        workloads.make(
            "per-source",
            exponents=(0.0, 1.5),
            n_keys=10_000,
            n_records=n_sources * len(factors) * rounds_per_phase,
        ),
        n_workers=n_workers,
        n_sources=n_sources,
        seed=seed,
        window=n_sources * 60 * rounds,
        # A round is one record of each source.
        sync=Sync(
            n_sources * interval * rounds,
            work=lambda record: n_sources * work(record // n_sources),
            adaptive=adaptive,
            shortest=n_sources if adaptive else 1,
        ),
    )
    times = [sync.received // n_sources / rounds for sync in result.syncs]
    intervals = [sync.interval // n_sources / rounds for sync in result.syncs]
    last = [
        [i for t, i in zip(times, intervals, strict=True) if t < (number + 1) * phase][-1]
        for number in range(len(factors))
    ]
    peaks = result.windows.peaks * n_workers / result.windows.records
    return {
        "intervals": last,
        "window_max_load_ratio": peaks.tolist(),
    }
