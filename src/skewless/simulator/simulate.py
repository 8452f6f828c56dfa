"""Runs a workload through the sources of a strategy and counts what the workers get."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from skewless.arguments import seed_number, shown, whole
from skewless.parameters import as_dict
from skewless.simulator.clock import Clock
from skewless.simulator.membership import Membership
from skewless.simulator.records import read_records
from skewless.simulator.run import Run
from skewless.simulator.simulation import Simulation
from skewless.simulator.starting import (
    require_capacities,
    require_counts,
    require_parts,
    start_sources,
)
from skewless.simulator.tally import Tally
from skewless.simulator.timing import Event, Timing, require_events
from skewless.state import state_bytes
from skewless.strategy import AnyStrategy, Merges
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
    sync_delay: int = 0,
    horizon: int = 0,
    timing: Timing | None = None,
    events: Sequence[Event] = (),
    keep_loads: bool = False,
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
        at the end of the window in which it is due.
    sync_delay
        Records, over all sources, from the messages of a sync to the answers. `cooperate` knows
        delays that differ and intervals that adapt.
    horizon
        Records, over all sources, over which balance counts: windows that belong together, as the
        Arrow batches of one micro-batch do. A strategy that balances over intervals is told when
        one begins and how long it is. 0 means that each window counts for itself.
    timing
        How long things take. The run then has virtual times: throughput, latencies, queues. A
        strategy that uses measured speeds is told, after each window, how long a record took.
    events
        What happens to workers meanwhile: other speeds, stops, workers that leave and join.
    keep_loads
        Keep the load of each worker in each window: `Run.windows.loads`.
    max_pairs
        Above so many distinct (key, worker) pairs the replication is an estimate; see
        `ReplicaCounter`.
    """
    require_parts(strategy, workload)
    n_workers, n_sources, window = require_counts(n_workers, n_sources, window)
    seed = seed_number(seed)
    sync = whole(sync, "sync")
    sync_delay = whole(sync_delay, "sync_delay")
    horizon = whole(horizon, "horizon") or window
    state_windows = whole(state_windows, "state_windows", least=1)
    chunk_size = whole(chunk_size, "chunk_size", least=1)
    max_pairs = whole(max_pairs, "max_pairs", least=1)
    speeds = require_capacities(capacities, n_workers)
    if timing is not None and not isinstance(timing, Timing):
        raise ValueError(f"timing must be a Timing or None, not {shown(timing)}")
    if sync and not isinstance(strategy, Merges):
        raise ValueError(f"sync: {strategy.name} does not merge the states of its sources")
    if sync_delay and not sync:
        raise ValueError("sync_delay goes with sync, which is 0")
    members = Membership(strategy, speeds, require_events(events, n_workers))
    weights = workload.weights(seed, chunk_size) if isinstance(workload, Weighted) else None
    clock = None
    if timing is not None:
        clock = Clock(timing, n_sources=n_sources, window=window, capacities=speeds, seed=seed)
    run = Simulation(
        strategy,
        start_sources(strategy, n_workers, n_sources, seed),
        Tally(
            n_workers,
            window,
            members.capacities,
            max_pairs,
            weighted=weights is not None,
            keep_loads=keep_loads,
        ),
        members,
        clock,
        state_windows=state_windows,
        sync=sync,
        sync_delay=sync_delay,
        horizon=horizon,
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
        capacities=run.tally.mean_capacities if events else speeds.copy(),
        n_records=run.n_records,
        n_keys=n_keys,
        n_pairs=n_pairs,
        exact=run.tally.replicas.exact,
        loads=run.tally.loads,
        windows=windows,
        route_ns=run.route_ns,
        state_bytes=max(state_bytes(state) for state in run.states),
        rebalances=tuple(run.rebalances),
        times=None if clock is None else clock.finish(),
        inferred=np.array(run.inferred) if run.inferred else None,
    )
