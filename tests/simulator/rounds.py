"""`simulate` with everything about messages counted in rounds, in which each source routes once."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

from skewless.simulator import Exchange, Measuring, Sync, simulate


def cooperate(
    strategy,
    workload,
    *,
    n_sources,
    interval,
    delay=0,
    work=0,
    adaptive=False,
    shortest=1,
    **options,
):
    """Return the run of sources that learn together, with its exchanges in rounds."""
    bounds = {}
    if adaptive:
        bounds["shortest"] = n_sources * shortest
    several = isinstance(delay, Sequence)
    run = simulate(
        strategy,
        workload,
        n_sources=n_sources,
        sync=Sync(
            n_sources * interval,
            delay=[n_sources * one for one in delay] if several else n_sources * delay,
            work=(lambda at: n_sources * work(at // n_sources))
            if callable(work)
            else n_sources * work,
            adaptive=adaptive,
            **bounds,
        ),
        measuring=Measuring(forwarding=hasattr(strategy, "forwards")),
        **options,
    )
    n = n_sources
    syncs = [Exchange(s.sent // n, s.received // n, s.interval // n, s.n_late) for s in run.syncs]
    return SimpleNamespace(**{**vars(run), "syncs": tuple(syncs)})
