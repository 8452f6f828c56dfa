"""Plans of the moving family over the intervals of a fluctuating Zipf, counted step by step.

The authors measure how long a plan takes. A clock would make another table on each machine, so the
work of a plan is counted instead: how many keys (or vectors of keys) are put in order and passed
over, how many keys LLFD places, and how many pairs of keys Readj compares.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skewless import registry
from skewless.arrays import Floats, Keys, Workers
from skewless.experiments.tables import Row
from skewless.kernels.xxhash64 import hash_ranks
from skewless.strategies.readj import Readj
from skewless.strategies.rebalancing.controller import PhasedPlanning
from skewless.strategies.rebalancing.phases import Attempt, Problem
from skewless.strategy import AnyStrategy, Rebalances, Report
from skewless.workloads import FluctuatingZipf
from skewless.workloads.fluctuating_zipf import Frequencies


@dataclass
class Work:
    """What was counted while plans were made."""

    attempts: int = 0
    ordered: int = 0  # keys, or vectors of keys, that were put in an order: by cost, by priority
    passed: int = 0  # those that the phases of all attempts passed over
    placed: int = 0  # keys that LLFD placed
    pairs: int = 0  # pairs of keys that Readj compared

    @property
    def steps(self) -> int:
        """All of it."""
        return self.ordered + self.passed + self.placed + self.pairs


def counted(strategy: AnyStrategy) -> Work:
    """Return the count that this strategy adds to from now on, whenever it makes a plan."""
    work = Work()
    if isinstance(strategy, PhasedPlanning):
        make_attempt = strategy._attempt
        latest: list[Problem] = []

        def attempt(task: Problem, n_back: int) -> Attempt:
            plan = make_attempt(task, n_back)
            if not latest or latest[0] is not task:  # all attempts at a task share its orders
                latest[:] = [task]
                orders = 1 if task.by_priority is task.by_cost else 2
                work.ordered += orders * task.vectors.costs.size
            work.attempts += 1
            work.passed += task.vector.size
            work.placed += plan.placed.size
            return plan

        # Strategies are frozen, so that nobody changes a parameter; this changes no decision.
        object.__setattr__(strategy, "_attempt", attempt)
    elif isinstance(strategy, Readj):
        make_steps = strategy._readjust

        def readjust(costs: Floats, *others: Any) -> int:
            pairs = make_steps(costs, *others)
            work.attempts += 1
            work.ordered += costs.size
            work.pairs += pairs
            return pairs

        object.__setattr__(strategy, "_readjust", readjust)
    return work


class Intervals:
    """The intervals of a fluctuating Zipf as a controller sees them: the load of each key.

    Loads are expected ones: the generator of the paper makes snapshots of whole intervals, and
    what a sample adds to them is noise that no plan can know of.
    """

    def __init__(self, stream: FluctuatingZipf, seed: int, window: int) -> None:
        """Begin before the first interval."""
        self.stream, self.seed, self.number = stream, seed, 0
        self.frequencies: Frequencies = stream.start(seed)
        keys: Keys = np.empty(stream.n_keys, np.uint64)
        hash_ranks(np.arange(1, stream.n_keys + 1), keys)
        self._order = np.argsort(keys)
        self.keys = keys[self._order]
        self._history: deque[Floats] = deque(maxlen=window)

    def next(self) -> Report:
        """Return the loads of the next interval, and the state of the last `window` ones."""
        if self._history:
            self.number += 1
            self.stream.advance(self.frequencies, self.number, self.seed)
        loads = self.frequencies.by_rank[self.frequencies.rank_of[self._order]]
        self._history.append(loads)
        return Report(self.keys, loads, np.sum(self._history, axis=0))


@dataclass(frozen=True)
class Planning:
    """One strategy of the moving family on a fluctuating Zipf; defaults are those of table II.

    A plan is made at the end of an interval from what the interval was. The first `state_windows`
    intervals fill the state of the keys, and bring the loads from what the hash made of them to
    balance; averages are over the intervals after them.
    """

    strategy: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    z: float = 0.85
    n_keys: int = 100_000
    f: float = 1.0
    n_workers: int = 15
    state_windows: int = 5
    n_intervals: int = 20
    seed: int = 1

    def run(self) -> Row:
        """Make the plans, and return what they cost and what they leave."""
        strategy = registry.make(self.strategy, **self.settings)
        work = counted(strategy)
        stream = FluctuatingZipf(
            z=self.z, n_keys=self.n_keys, n_records=0, f=self.f, n_workers=self.n_workers
        )
        intervals = Intervals(stream, self.seed, self.state_windows)
        state = strategy.start(self.n_workers, self.seed)
        met: list[Floats] = []
        rows: list[Row] = []
        for _ in range(self.state_windows + self.n_intervals):
            report = intervals.next()
            owners: Workers = np.empty(report.keys.size, np.int32)
            strategy.route(report.keys, state, owners)
            met.append(self._loads(owners, report))
            if not isinstance(strategy, Rebalances):
                continue
            before = Work(**vars(work))
            state, moves = strategy.rebalance(report, state)
            strategy.route(report.keys, state, owners)
            loads = self._loads(owners, report)
            moving = np.isin(report.keys, moves.keys, assume_unique=True)
            rows.append(
                {
                    "skewness": float(loads.max() / loads.mean()),
                    "moved": float(report.state_sizes[moving].sum() / report.state_sizes.sum()),
                    "moves": int(moves.keys.size),
                    "entries": int(state.n_entries[0]),
                    "attempts": work.attempts - before.attempts,
                    "placed": work.placed - before.placed,
                    "steps": work.steps - before.steps,
                }
            )
        return {"n_keys": self.n_keys} | _summary(met, rows, self.state_windows)

    def _loads(self, owners: Workers, report: Report) -> Floats:
        return np.bincount(owners, report.loads, minlength=self.n_workers).astype(np.float64)


def _summary(met: list[Floats], rows: list[Row], first: int) -> Row:
    """Return averages over the intervals from the `first` on, and over those that had a plan."""
    counted_loads = np.array(met[first:])
    mean = float(counted_loads.mean())
    out: Row = {
        "average_loads": (counted_loads.mean(axis=0) / mean).tolist(),
        "skewness_met": float((counted_loads.max(axis=1) / mean).mean()),
    }
    if not rows:
        return out
    later = rows[first:]
    planned = [row for row in later if row["moves"]]
    out |= {
        "skewness": float(np.mean([row["skewness"] for row in later])),
        "planned": len(planned),
        "entries": [row["entries"] for row in rows],
        "entries_last": rows[-1]["entries"],
        "moved_total": float(sum(row["moved"] for row in later)),
    }
    for name in ("moved", "moves", "attempts", "placed", "steps"):
        values = [row[name] for row in planned]
        out[name] = float(np.mean(values)) if values else 0.0
    return out
