"""Runs a workload through the sources of a strategy and counts what the workers get."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from skewless.parameters import as_dict
from skewless.plumbing.arguments import MOST_WORKERS, seed_number, shown, whole
from skewless.simulator.forwarding import Forwarding
from skewless.simulator.records import read_records
from skewless.simulator.run import Run
from skewless.simulator.simulation import Simulation
from skewless.simulator.starting import (
    MOST_SOURCES,
    Cluster,
    Measuring,
    Membership,
    require_capacities,
    require_parts,
    start_sources,
)
from skewless.simulator.syncing import Exchanges, Sync
from skewless.simulator.tally import Tally
from skewless.simulator.timed.clock import Clock
from skewless.simulator.timed.timing import Timing, require_events
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
    horizon: int = 0,
    sync: int | Sync = 0,
    cluster: Cluster = Cluster(),
    measuring: Measuring = Measuring(),
    timing: Timing | None = None,
    progress: Progress | None = None,
) -> Run:
    """Route every record of `workload` by `strategy` and return the counts.

    If the records have weights, loads are sums of weights. A strategy that weighs records gets the
    weights. Any other strategy counts records, but its loads are still measured by the weights.

    Parameters
    ----------
    n_workers, n_sources
        Record i goes through source i mod `n_sources`; the sources share the seed and nothing
        else, except that strategies of the moving family share one plan.
    window
        Records per window, over all sources. Strategies that rebalance do so at its end, and
        those that decide by batch get each source's part of a window as one batch.
    horizon
        Records, over all sources, over which balance counts: windows that belong together, as the
        Arrow batches of one micro-batch do. A strategy that balances over intervals is told when
        one begins and how long it is. 0 means that each window is an interval.
    sync
        Records, over all sources, from one merge to the next, after which the sources continue with
        what all have learned; 0 means never. Strategies that decide by window merge at the end of
        the window in which it is due. A `Sync` adds answers that take time, and an interval that
        adapts, as in Dalton's protocol.
    cluster
        Speeds of the workers, and what happens to them.
    measuring
        What is counted and kept.
    timing
        How long things take. The run then has virtual times: throughput, latencies, queues. A
        strategy that uses measured speeds is told, after each window, how long a record took.
    """
    require_parts(strategy, workload)
    n_workers = whole(n_workers, "n_workers", least=1, most=MOST_WORKERS)
    n_sources = whole(n_sources, "n_sources", least=1, most=MOST_SOURCES)
    window = whole(window, "window", least=1)
    seed = seed_number(seed)
    for name, one, kind in (
        ("cluster", cluster, Cluster),
        ("measuring", measuring, Measuring),
        ("timing", Timing() if timing is None else timing, Timing),
    ):
        if not isinstance(one, kind):
            raise ValueError(f"{name} must be a {kind.__name__}, not {shown(one)}")
    syncing = _require_sync(sync, strategy)
    horizon = whole(horizon, "horizon") or window
    speeds = require_capacities(cluster.capacities, n_workers)
    forwarding = measuring.forwarding
    if forwarding and not hasattr(strategy, "forwards"):
        raise ValueError(f"forwarding: {strategy.name} cannot tell which results need no merging")
    keys_to_merge = Forwarding(strategy, n_sources) if forwarding else None
    exchanges = None if syncing is None else Exchanges(strategy, syncing, n_sources)
    events = require_events(cluster.events, n_workers, workload.n_records)
    members = Membership(strategy, speeds, events)
    chunk = measuring.chunk_size
    weights = workload.weights(seed, chunk) if isinstance(workload, Weighted) else None
    clock = None
    if timing is not None:
        clock = Clock(
            timing,
            n_sources=n_sources,
            window=window,
            capacities=speeds,
            seed=seed,
            forwarding=forwarding,
        )
    run = Simulation(
        strategy,
        start_sources(strategy, n_workers, n_sources, seed),
        Tally(n_workers, window, members.capacities, measuring, weighted=weights is not None),
        members,
        clock,
        exchanges=exchanges,
        forwarding=keys_to_merge,
        state_windows=measuring.state_windows,
        horizon=horizon,
    )
    for records in read_records(workload.chunks(seed, chunk), weights):
        run.process(records)
        if progress is not None:
            progress(run.n_records)
    windows = run.finish()
    if members.next_event is not None:  # the length of the stream was not known before
        warnings.warn(
            f"events: the stream ended after {run.n_records:,} records, before the event at "
            f"{members.next_event:,}",
            stacklevel=2,
        )
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
        syncs=() if exchanges is None else tuple(exchanges.done),
        merging=() if keys_to_merge is None else tuple(keys_to_merge.windows),
    )


def _require_sync(sync: int | Sync, strategy: AnyStrategy) -> Sync | None:
    """Build the exchange of sources, if there is one; raise ValueError unless the strategy can."""
    if not isinstance(sync, Sync):
        interval = whole(sync, "sync")
        if not interval:
            return None
        sync = Sync(interval)
    if not isinstance(strategy, Merges):
        raise ValueError(f"sync: {strategy.name} does not merge the states of its sources")
    return sync
