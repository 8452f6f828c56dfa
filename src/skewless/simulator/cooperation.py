"""Cooperating sources, with everything counted in rounds: a short form of `simulate`.

In each round every source routes one record, as in Dalton's section 4. The protocol itself is in
`syncing`, and `simulate` runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from skewless.plumbing.arguments import whole
from skewless.simulator.forwarding import Slide
from skewless.simulator.simulate import simulate
from skewless.simulator.starting import require_counts, require_parts
from skewless.simulator.syncing import (
    Exchange,
    Sync,
    merge_and_fork,
    next_interval,
    take_over,
)
from skewless.simulator.tally import Windows
from skewless.strategy import AnyStrategy
from skewless.workloads.workload import Workload

__all__ = ["Cooperation", "cooperate", "merge_and_fork", "next_interval", "take_over"]


@dataclass(frozen=True)
class Cooperation:
    """The raw result of a run of cooperating sources."""

    n_records: int
    loads: NDArray[Any]  # records of each worker, or what they cost
    windows: Windows
    syncs: tuple[Exchange, ...]  # in rounds
    slides: tuple[Slide, ...]


def cooperate(
    strategy: AnyStrategy,
    workload: Workload,
    *,
    n_workers: int,
    n_sources: int,
    seed: int = 0,
    window: int = 10_000,
    interval: int = 10_000,
    delay: int | Sequence[int] = 0,
    work: int | Callable[[int], int] = 0,
    adaptive: bool = False,
    shortest: int = 1,
    longest: int | None = None,
    max_pairs: int = 1 << 25,
) -> Cooperation:
    """Route every record of `workload` by sources that exchange what they learned.

    It is `simulate(sync=Sync(…))` with rounds instead of records. Where the records have weights,
    loads are what they cost.

    Parameters
    ----------
    window
        Records per window, over all sources: for the counts, and for key forwarding.
    interval
        DSYNC: records of a source from one message to its next.
    delay
        Rounds that a message takes, to the reducer or back; one number, or one per source.
    work
        Rounds that the reducer takes to merge, or a function of the round in which it begins.
    adaptive, shortest, longest
        Let `next_interval` change the interval, within these bounds.
    """
    require_parts(strategy, workload)
    n_workers, n, window = require_counts(n_workers, n_sources, window)
    if window % n:
        raise ValueError(f"window must be a multiple of the {n} sources, not {window}")
    delays = Sync(1, delay=delay).delays(n)
    bounds: dict[str, Any] = {}
    if adaptive:
        bounds["shortest"] = n * whole(shortest, "shortest", least=1)
        if longest is not None:
            bounds["longest"] = n * whole(longest, "longest", least=1)
    run = simulate(
        strategy,
        workload,
        n_workers=n_workers,
        n_sources=n,
        seed=seed,
        window=window,
        sync=Sync(
            interval=n * whole(interval, "interval", least=1),
            delay=[n * one for one in delays],
            work=_in_records(work, n) if callable(work) else n * whole(work, "work"),
            adaptive=adaptive,
            **bounds,
        ),
        forwarding=hasattr(strategy, "forwards"),
        max_pairs=max_pairs,
    )
    syncs = [
        Exchange(sync.sent // n, sync.received // n, sync.interval // n, sync.n_late)
        for sync in run.syncs
    ]
    return Cooperation(run.n_records, run.loads, run.windows, tuple(syncs), run.slides)


def _in_records(work: Callable[[int], int], n_sources: int) -> Callable[[int], int]:
    """Return the work of a reducer in records, where it is given in rounds."""
    return lambda record: n_sources * work(record // n_sources)
