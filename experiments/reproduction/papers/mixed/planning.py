"""Plans of the moving family over the intervals of a fluctuating Zipf, counted step by step.

The authors measure how long a plan takes. `clocked` times plans beside each other, for figures 9a
and 11a. A clock would make another table on each machine, so elsewhere the work of a plan is
counted: how many keys (or vectors of keys) are put in order and passed over, how many keys LLFD
places, and how many pairs of keys Readj compares.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.records import Row
from experiments.reproduction.cells import Simulation, side_by_side
from experiments.reproduction.figure import cell
from skewless import registry, workloads
from skewless.arrays import Floats, Keys, Workers
from skewless.kernels.xxhash64 import hash_ranks
from skewless.simulator import simulate
from skewless.strategies import Mixed
from skewless.strategies.mixed.compact_representation import compact
from skewless.strategies.mixed.controller import PhasedPlanning
from skewless.strategies.mixed.phases import Attempt, Problem
from skewless.strategies.mixed.readj import Readj
from skewless.strategy import AnyStrategy, Moves, Rebalances, Report
from skewless.workloads import FluctuatingZipf

#: Keys of the paper's streams, and intervals that a state reaches back (table II).
N_KEYS = 1_000_000
_STATE_WINDOWS = 5


def literal(strategy: str) -> dict[str, Any]:
    """Return the parameters with which a strategy plans as the paper writes it.

    Our defaults pin keys that no worker can hold, fill workers that have too little, and keep the
    bound on the table.
    """
    bound = {"keep_bound": False} if strategy in ("mixed", "mixed-bf") else {}
    return {"pin_giants": False, "two_sided": False, **bound}


def table_bound(keys: int, published: int = 3_000) -> int:
    """Return the bound on the table for fewer keys.

    The published bound lies just below what MinTable needs for 40 workers (about 3,500 entries for
    a million keys, 150 for 20,000 keys with the same head). A smaller bound stays just below.

    >>> table_bound(1_000_000), table_bound(20_000)
    (3000, 150)
    """
    share = float((min(keys, N_KEYS) / N_KEYS) ** 0.766)
    return max(1, round(published * share))


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


def counted(strategy: AnyStrategy) -> list[Work]:
    """Return the list that gets the work of each rebalance of this strategy from now on."""
    works: list[Work] = []
    latest: list[Problem] = []

    def rebalance(report: Report, state: Any) -> tuple[Any, Moves]:
        works.append(Work())
        found: tuple[Any, Moves] = make_plan(report, state)
        return found

    def attempt(task: Problem, n_back: int) -> Attempt:
        plan: Attempt = make_attempt(task, n_back)
        work = works[-1]
        if not latest or latest[0] is not task:  # all attempts at a task share its orders
            latest[:] = [task]
            orders = 1 if task.by_priority is task.by_cost else 2
            work.ordered += orders * task.vectors.costs.size
        work.attempts += 1
        work.passed += task.vector.size
        work.placed += plan.placed.size
        return plan

    def readjust(costs: Floats, *others: Any) -> int:
        pairs: int = make_steps(costs, *others)
        work = works[-1]
        work.attempts += 1
        work.ordered += costs.size
        work.pairs += pairs
        return pairs

    own: Any = strategy
    counting: dict[str, Callable[..., Any]] = {}
    if isinstance(own, Rebalances):
        make_plan, counting["rebalance"] = own.rebalance, rebalance
    if isinstance(own, PhasedPlanning):
        make_attempt, counting["_attempt"] = own._attempt, attempt
    elif isinstance(own, Readj):
        make_steps, counting["_readjust"] = own._readjust, readjust
    for name, function in counting.items():
        # Strategies are frozen, so that nobody changes a parameter; this changes no decision.
        object.__setattr__(strategy, name, function)
    return works


def reports(stream: FluctuatingZipf, seed: int, window: int) -> Iterator[Report]:
    """Yield the intervals of a fluctuating Zipf as a controller sees them.

    A report has the load of each key, and its state over the last `window` intervals. Loads are
    expected ones: the generator of the paper makes snapshots of whole intervals, and what a sample
    adds to them is noise that no plan can know of.
    """
    frequencies = stream.start(seed)
    keys: Keys = np.empty(stream.n_keys, np.uint64)
    hash_ranks(np.arange(1, stream.n_keys + 1), keys)
    order = np.argsort(keys)
    history: deque[Floats] = deque(maxlen=window)
    for number in itertools.count(1):
        loads = frequencies.by_rank[frequencies.rank_of[order]]
        history.append(loads)
        yield Report(keys[order], loads, np.sum(history, axis=0))
        stream.advance(frequencies, number, seed)


def _owners(strategy: AnyStrategy, report: Report, state: Any) -> Workers:
    owners: Workers = np.empty(report.keys.size, np.int32)
    strategy.route(report.keys, state, owners)
    return owners


def _moved_share(report: Report, moves: Moves) -> float:
    """Return which part of all state a plan moves."""
    moving = np.isin(report.keys, moves.keys, assume_unique=True)
    return float(report.state_sizes[moving].sum() / report.state_sizes.sum())


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
        works = counted(strategy)
        stream = FluctuatingZipf(
            z=self.z, n_keys=self.n_keys, n_records=0, f=self.f, n_workers=self.n_workers
        )
        found = reports(stream, self.seed, self.state_windows)
        state = strategy.start(self.n_workers, self.seed)
        met: list[Any] = []
        rows: list[Row] = []
        for report in itertools.islice(found, self.state_windows + self.n_intervals):
            owners = _owners(strategy, report, state)
            met.append(np.bincount(owners, report.loads, self.n_workers))
            if not isinstance(strategy, Rebalances):
                continue
            state, moves = strategy.rebalance(report, state)
            owners = _owners(strategy, report, state)
            loads = np.bincount(owners, report.loads, self.n_workers)
            rows.append(
                {
                    "skewness": float(loads.max() / loads.mean()),
                    "moved": _moved_share(report, moves),
                    "moves": int(moves.keys.size),
                    "entries": int(state.n_entries[0]),
                    "attempts": works[-1].attempts,
                    "placed": works[-1].placed,
                    "steps": works[-1].steps,
                }
            )
        return {"n_keys": self.n_keys} | _summary(met, rows, self.state_windows)


def _summary(met: list[Any], rows: list[Row], first: int) -> Row:
    """Return averages over the intervals from the `first` on, and over those that had a plan."""
    loads = np.array(met[first:])
    out: Row = {"average_loads": (loads.mean(axis=0) / float(loads.mean())).tolist()}
    if not rows:
        return out
    later = rows[first:]
    planned = [row for row in later if row["moves"]]
    out |= {
        "skewness": float(np.mean([row["skewness"] for row in later])),
        "planned": len(planned),
        "entries": [row["entries"] for row in rows],
        "entries_last": rows[-1]["entries"],
    }
    for name in ("moved", "moves", "attempts", "placed", "steps"):
        out[name] = float(np.mean([row[name] for row in planned])) if planned else 0.0
    return out


@cell
def compacting(
    degree: int, z: float, n_keys: int, n_workers: int, n_intervals: int, seed: int
) -> Row:
    """Plans of Mixed over vectors, with R = `degree`; 0: over single keys.

    Its row has what they take, and how wrong the loads are that they expect of workers.
    """
    strategy = Mixed(
        compact=degree > 0,
        discretisation=max(degree, 1).bit_length() - 1,
        max_entries=table_bound(n_keys),
        **literal(Mixed.name),
    )
    works = counted(strategy)
    stream = FluctuatingZipf(z=z, n_keys=n_keys, n_records=0, n_workers=n_workers)
    state = strategy.start(n_workers, seed)
    n_vectors, errors, moved = [], [], []
    for report in itertools.islice(reports(stream, seed, _STATE_WINDOWS), n_intervals):
        expected = report.loads
        n_vectors.append(report.keys.size)
        if degree:
            vectors = compact(strategy._observed(report, state), degree, n_workers)
            expected = vectors.costs[vectors.of_key]
            n_vectors[-1] = vectors.costs.size
        state, moves = strategy.rebalance(report, state)
        owners = _owners(strategy, report, state)
        true, seen = (np.bincount(owners, some, n_workers) for some in (report.loads, expected))
        errors.append(float((np.abs(seen - true) / true).mean()))
        moved.append(_moved_share(report, moves))
    return {
        "vectors": float(np.mean(n_vectors)),
        "steps": sum(work.steps for work in works) / n_intervals,
        "error": float(np.mean(errors)),
        "moved": float(np.mean(moved)),
    }


@cell
def clocked(
    plans: Mapping[str, Mapping[str, Any]], z: float, n_keys: int, n_workers: int, seed: int
) -> Row:
    """Median seconds of a plan, by name; `plans` has a strategy and its settings each."""
    n_intervals = 10
    stream = FluctuatingZipf(z=z, n_keys=n_keys, n_records=0, n_workers=n_workers)
    found = [*itertools.islice(reports(stream, seed, _STATE_WINDOWS), n_intervals + 1)]

    def planner(strategy: str, **settings: Any) -> Callable[[int], object]:
        own: Any = registry.make(strategy, **settings)
        states = [own.start(n_workers, seed)]

        def plan(i: int) -> None:
            states[0], _ = own.rebalance(found[i], states[0])

        return plan

    return side_by_side({name: planner(**plan) for name, plan in plans.items()}, n_intervals)


@dataclass(frozen=True)
class Timed(Simulation):
    """One strategy on one stream in virtual time.

    The stream is routed twice. The first time, without a clock, the work of a plan is counted: see
    `planning`. The second time each plan takes that work divided by `steps_per_second`.
    """

    steps_per_second: float = 1e6

    def run(self) -> Row:
        """Simulate twice; return the summary and the windows of the second run."""
        strategy, seconds = registry.make(self.strategy, **self.settings), 0.0
        if isinstance(strategy, Rebalances):
            works = counted(strategy)
            simulate(
                strategy,
                workloads.make(self.workload, **self.of),
                n_workers=self.of["n_workers"],
                n_sources=self.n_sources,
                seed=self.seed,
                window=self.window,
            )
            steps = [work.steps for work in works if work.steps]
            seconds = sum(steps) / len(steps) / self.steps_per_second if steps else 0.0
        plan = {"plan": seconds} if seconds else {}
        timed = replace(self, timing={**(self.timing or {}), **plan})
        return Simulation.run(timed) | {"seconds_per_plan": seconds}
