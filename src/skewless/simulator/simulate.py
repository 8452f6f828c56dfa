"""Runs a workload through the sources of a strategy and counts what the workers get."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skewless.arguments import seed_number, whole
from skewless.arrays import Floats, Keys, Workers
from skewless.parameters import as_dict
from skewless.simulator.cooperation import merge_and_fork
from skewless.simulator.records import Records, decide, joined, read_records
from skewless.simulator.run import Rebalance, Run
from skewless.simulator.starting import (
    require_capacities,
    require_counts,
    require_parts,
    start_sources,
)
from skewless.simulator.tally import Tally, Windows
from skewless.state import copy_state, state_bytes
from skewless.strategy import (
    AnyStrategy,
    Begins,
    Merges,
    Rebalances,
    Report,
    Rescales,
)
from skewless.workloads.workload import Weighted, Workload

#: Called with the number of records done so far.
Progress = Callable[[int], None]


def simulate(
    strategy: AnyStrategy,
    workload: Workload,
    *,
    n_workers: int,
    n_sources: int = 1,
    seed: int = 0,
    window: int = 10_000,
    capacities: ArrayLike | None = None,
    state_windows: int = 5,
    sync: int = 0,
    horizon: int = 0,
    chunk_size: int = 1 << 18,
    max_pairs: int = 1 << 25,
    progress: Progress | None = None,
) -> Run:
    """Route every record of `workload` by `strategy` and return the counts.

    Where the records have weights, loads are what they cost. A strategy that weighs records is
    told the weights; any other goes by the records, and is measured by what they cost.

    Parameters
    ----------
    n_workers, n_sources
        Record i goes through source i mod `n_sources`; the sources share the seed and nothing
        else, except that strategies of the moving family share one plan.
    window
        Records per window, over all sources. Strategies that rebalance do so at its end, and
        those that decide by batch get each source's part of a window as one batch.
    capacities
        Relative speeds of the workers. A strategy that can `rescale` is told about them.
    state_windows
        How many windows a key's state reaches back: what its move costs.
    sync
        Every so many records, over all sources, a strategy that merges does so, and the sources
        go on with what all have learned; 0 means never. Strategies that decide by window do so
        at the end of the window in which it is due. `cooperate` knows messages that take time.
    horizon
        Records, over all sources, over which balance counts: windows that belong together, as the
        Arrow batches of one micro-batch do. A strategy that balances over intervals is told when
        one begins and how long it is. 0 means that each window counts for itself.
    max_pairs
        Above so many distinct (key, worker) pairs the replication is an estimate; see
        `ReplicaCounter`.
    """
    require_parts(strategy, workload)
    n_workers, n_sources, window = require_counts(n_workers, n_sources, window)
    seed = seed_number(seed)
    sync = whole(sync, "sync")
    horizon = whole(horizon, "horizon") or window
    state_windows = whole(state_windows, "state_windows", least=1)
    chunk_size = whole(chunk_size, "chunk_size", least=1)
    max_pairs = whole(max_pairs, "max_pairs", least=1)
    speeds = require_capacities(capacities, n_workers)
    weights = workload.weights(seed, chunk_size) if isinstance(workload, Weighted) else None
    tally = Tally(n_workers, window, speeds, max_pairs, weighted=weights is not None)
    if sync and not isinstance(strategy, Merges):
        raise ValueError(f"sync: {strategy.name} does not merge the states of its sources")
    states = start_sources(strategy, n_workers, n_sources, seed)
    if isinstance(strategy, Rescales) and not (speeds == speeds[0]).all():
        states = [strategy.rescale(state, n_workers, speeds) for state in states]
    run = _Simulation(
        strategy, states, tally, state_windows=state_windows, sync=sync, horizon=horizon
    )
    for records in read_records(workload.chunks(seed, chunk_size), weights):
        run.process(records)
        if progress is not None:
            progress(run.n_records)
    windows = run.finish()
    n_keys, n_pairs = run.tally.replicas.counts()
    return Run(
        strategy=strategy.name,
        parameters=as_dict(strategy),
        workload=workload.name,
        n_workers=n_workers,
        n_sources=n_sources,
        seed=seed,
        window=window,
        capacities=speeds,
        n_records=run.n_records,
        n_keys=n_keys,
        n_pairs=n_pairs,
        exact=run.tally.replicas.exact,
        loads=run.tally.loads,
        windows=windows,
        route_ns=run.route_ns,
        state_bytes=max(state_bytes(state) for state in run.states),
        rebalances=tuple(run.rebalances),
    )


class _Simulation:
    """The sources of one run and what has been counted so far."""

    def __init__(
        self,
        strategy: AnyStrategy,
        states: list[Any],
        tally: Tally,
        *,
        state_windows: int,
        sync: int,
        horizon: int,
    ) -> None:
        self.strategy = strategy
        self.n_workers = tally.loads.size
        self.states = states
        self.tally = tally
        self.n_records = 0
        self.route_ns = 0
        self.rebalances: list[Rebalance] = []
        self._pending: list[Records] = []  # records of a window that is not complete
        # The records by key of the last windows: what a key's state reaches back to.
        self._history: deque[tuple[Keys, Floats]] = deque(maxlen=state_windows)
        self._sync = sync  # records from one merge of the states to the next; 0: never
        self._next_sync = sync
        self._horizon = horizon  # records from the beginning of one interval to the next
        self._next_begin = 0
        self._warm_up()

    def _synchronise(self) -> None:
        """Merge the states when it is due."""
        if self._sync and self.n_records >= self._next_sync:
            self.states = merge_and_fork(self.strategy, self.states)
            self._next_sync = (self.n_records // self._sync + 1) * self._sync

    def _begin(self) -> None:
        """Begin an interval when it is due."""
        if isinstance(self.strategy, Begins) and self.n_records >= self._next_begin:
            for state in self.states:
                self.strategy.begin(state, -(-self._horizon // len(self.states)))
            self._next_begin = (self.n_records // self._horizon + 1) * self._horizon

    def _warm_up(self) -> None:
        """Compile (or load) the kernels, so that their first call is not measured."""
        weights = np.ones(1) if self.tally.weighted else None
        record = Records(np.zeros(1, np.uint64), weights)
        self._decide(record, copy_state(self.states[0]), np.zeros(1, np.int32))

    def process(self, records: Records) -> None:
        """Route these records, window by window where the strategy decides between windows."""
        if isinstance(self.strategy, Rebalances) or self.strategy.traits.decides == "batch":
            self._pending.append(records)
            n_pending = sum(pending.keys.size for pending in self._pending)
            if n_pending >= self.tally.room:
                self._process_windows(joined(self._pending))
        elif self._sync:
            while records.keys.size:
                cut = self._next_sync - self.n_records
                self._process_all(records.part(slice(cut)))
                records = records.part(slice(cut, None))
                self._synchronise()
        else:
            self._process_all(records)

    def _process_all(self, records: Records) -> None:
        self.tally.add(records.keys, self._route(records), records.weights)

    def _process_windows(self, records: Records) -> None:
        begin = 0
        while records.keys.size - begin >= self.tally.room:
            window = records.part(slice(begin, begin + self.tally.room))
            begin += window.keys.size
            self._begin()
            self._process_all(window)
            if isinstance(self.strategy, Rebalances):
                self._rebalance(self.strategy, window)
            self._synchronise()
        self._pending = [records.part(slice(begin, None))]

    def finish(self) -> Windows:
        """Route what has not filled a window, and return the counts of all windows."""
        if self._pending:  # one batch, however it was read
            rest = joined(self._pending)
            if rest.keys.size:
                self._begin()
            self._process_all(rest)
        self._pending = []
        return self.tally.finish()

    def _decide(self, records: Records, state: Any, out: Workers) -> None:
        decide(self.strategy, records, state, out)

    def _route(self, records: Records) -> Workers:
        n_records = records.keys.size
        workers = np.full(n_records, -1, np.int32)
        n_sources = len(self.states)
        for source, state in enumerate(self.states):
            first = (source - self.n_records) % n_sources
            share = records.part(slice(first, None, n_sources))
            out = np.full(share.keys.size, -1, np.int32)
            begin = perf_counter_ns()
            self._decide(share, state, out)
            self.route_ns += perf_counter_ns() - begin
            workers[first::n_sources] = out
        self.n_records += n_records
        if n_records and not 0 <= workers.min() <= workers.max() < self.n_workers:
            raise RuntimeError(
                f"{self.strategy.name} sent a record outside 0 … {self.n_workers - 1}"
            )
        return workers

    def _rebalance(self, strategy: Rebalances[Any], window: Records) -> None:
        keys, index, counts = np.unique(window.keys, return_inverse=True, return_counts=True)
        self._history.append((keys, counts.astype(np.float64)))
        costs = counts if window.weights is None else np.bincount(index, window.weights)
        report = _report(self._history, costs.astype(np.float64))
        begin = perf_counter_ns()
        state, moves = strategy.rebalance(report, self.states[0])
        seconds = (perf_counter_ns() - begin) / 1e9
        self.states = [state, *(copy_state(state) for _ in self.states[1:])]
        # A key of the table that the report does not name may move as well; it has no state here.
        moving = np.isin(report.keys, moves.keys)
        self.rebalances.append(
            Rebalance(
                plan_seconds=seconds,
                state_moved=float(report.state_sizes[moving].sum()),
                state_held=float(report.state_sizes.sum()),
                n_moves=moves.keys.size,
            )
        )


def _report(history: deque[tuple[Keys, Floats]], last_costs: Floats) -> Report:
    """Return cost in the last window and state over all remembered ones, by key."""
    keys, index = np.unique(np.concatenate([k for k, _ in history]), return_inverse=True)
    sizes = np.bincount(index, weights=np.concatenate([counts for _, counts in history]))
    last_keys, _ = history[-1]
    loads = np.zeros(keys.size)
    loads[np.searchsorted(keys, last_keys)] = last_costs
    return Report(keys, loads, sizes.astype(np.float64))
