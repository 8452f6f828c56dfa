"""Runs a workload through the sources of a strategy and counts what the workers get."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from skewless.parameters import as_dict
from skewless.plumbing.arguments import seed_number, shown, whole
from skewless.simulator.forwarding import Forwarding
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
from skewless.simulator.syncing import Exchanges, Sync
from skewless.simulator.tally import Tally
from skewless.simulator.timed.clock import Clock
from skewless.simulator.timed.timing import Event, Timing, require_events
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
    sync: int | Sync = 0,
    sync_delay: int = 0,
    slides: int = 1,
    forwarding: bool = False,
    horizon: int = 0,
    timing: Timing | None = None,
    events: Sequence[Event] = (),
    keep_loads: bool = False,
    chunk_size: int = 1 << 18,
    max_pairs: int = 1 << 25,
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
    capacities
        Relative speeds of the workers. A strategy that can `rescale` is told about them.
    state_windows
        How many windows a key's state reaches back: what its move costs.
    sync
        Records, over all sources, from one merge to the next, after which the sources continue with
        what all have learned; 0 means never. Strategies that decide by window merge at the end of
        the window in which it is due. A `Sync` adds delays that differ by source, and an interval
        that adapts, as in Dalton's protocol.
    sync_delay
        Records, over all sources, from the messages of a sync to the answers; where `sync` is a
        number. It is short for `Sync(interval=sync, work=sync_delay)`.
    slides
        Windows that overlap: one covers this many slides, and `window` is the slide. At the end of
        each slide, the merge stage gets the partial results of the last `slides` slides. Loads,
        replicas and times are still counted slide by slide.
    forwarding
        Count, slide by slide, which partial results need no merging by key: `Run.slides`. For
        strategies that can tell, as Dalton can. The merge stage then merges only the others.
    horizon
        Records, over all sources, over which balance counts: windows that belong together, as the
        Arrow batches of one micro-batch do. A strategy that balances over intervals is told when
        one begins and how long it is. 0 means that each window is an interval.
    timing
        How long things take. The run then has virtual times: throughput, latencies, queues. A
        strategy that uses measured speeds is told, after each window, how long a record took.
    events
        What happens to workers during the run: they change speed, stop, leave, fail or join.
    keep_loads
        Keep the load of each worker in each window: `Run.windows.loads`.
    max_pairs
        Above this many distinct (key, worker) pairs the replication is an estimate; see
        `ReplicaCounter`.
    """
    require_parts(strategy, workload)
    n_workers, n_sources, window = require_counts(n_workers, n_sources, window)
    seed = seed_number(seed)
    if timing is not None and not isinstance(timing, Timing):
        raise ValueError(f"timing must be a Timing or None, not {shown(timing)}")
    slides = whole(slides, "slides", least=1, most=1 << 20)
    if not isinstance(forwarding, bool):
        raise ValueError(f"forwarding must be True or False, not {shown(forwarding)}")
    if slides > 1 and not forwarding and (timing is None or not timing.merge):
        raise ValueError("slides: windows can overlap where timing has merge, or with forwarding")
    syncing = _require_sync(sync, sync_delay, strategy)
    horizon = whole(horizon, "horizon") or window
    state_windows = whole(state_windows, "state_windows", least=1)
    chunk_size = whole(chunk_size, "chunk_size", least=1)
    max_pairs = whole(max_pairs, "max_pairs", least=1)
    speeds = require_capacities(capacities, n_workers)
    keys_to_merge = _forwarding(strategy, n_sources, slides) if forwarding else None
    exchanges = None if syncing is None else Exchanges(strategy, syncing, n_sources)
    members = Membership(strategy, speeds, require_events(events, n_workers, workload.n_records))
    members.require_clock(timing)
    weights = workload.weights(seed, chunk_size) if isinstance(workload, Weighted) else None
    clock = None
    if timing is not None:
        clock = Clock(
            timing,
            n_sources=n_sources,
            window=window,
            capacities=speeds,
            seed=seed,
            failing=members.failing,
            n_slides=slides,
            forwarding=forwarding,
        )
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
        exchanges=exchanges,
        forwarding=keys_to_merge,
        state_windows=state_windows,
        horizon=horizon,
    )
    for records in read_records(workload.chunks(seed, chunk_size), weights):
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
        slides=() if keys_to_merge is None else tuple(keys_to_merge.slides),
    )


def _forwarding(strategy: AnyStrategy, n_sources: int, slides: int) -> Forwarding:
    """Build the count of forwarded keys; raise ValueError unless the strategy can tell them."""
    if not hasattr(strategy, "forwards"):
        raise ValueError(f"forwarding: {strategy.name} cannot tell which results need no merging")
    return Forwarding(strategy, n_sources, slides)


def _require_sync(sync: object, delay: object, strategy: AnyStrategy) -> Sync | None:
    """Return how sources learn together; raise ValueError unless the strategy can."""
    delay = whole(delay, "sync_delay")
    if isinstance(sync, Sync):
        if delay:
            raise ValueError("sync_delay goes with sync as a number; a Sync has its own delay")
        found: Sync | None = sync
    else:
        interval = whole(sync, "sync")
        if delay and not interval:
            raise ValueError("sync_delay needs sync above 0")
        found = Sync(interval, work=delay) if interval else None
    if found is not None and not isinstance(strategy, Merges):
        raise ValueError(f"sync: {strategy.name} does not merge the states of its sources")
    return found
