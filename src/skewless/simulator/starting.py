"""What a simulation is given, checked before it starts, and the states with which it starts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from skewless.arrays import Floats
from skewless.parameters import check_types, require_count
from skewless.plumbing.arguments import shown
from skewless.registry import strategy_of
from skewless.simulator.timed.timing import Event
from skewless.state import state_bytes
from skewless.strategy import AnyStrategy

#: The most sources: each has a state of its own.
MOST_SOURCES = 1 << 20
#: The most slides of a window.
MOST_SLIDES = 1 << 20


@dataclass(frozen=True)
class Cluster:
    """Workers that differ from each other, or that change while a simulation runs.

    Parameters
    ----------
    capacities
        Relative speeds of the workers. A strategy that can `rescale` is told about them.
    events
        What happens to workers: they change speed, stop, leave, fail or join.
    """

    capacities: ArrayLike | None = None
    events: Sequence[Event] = ()


@dataclass(frozen=True)
class Measuring:
    """What a simulation counts, and what it keeps of it.

    Parameters
    ----------
    state_windows
        How many windows a key's state reaches back: what its move costs.
    slides
        Windows that overlap: one covers this many slides, and `window` is the slide. At the end of
        each slide, the merge stage gets the partial results of the last `slides` slides. Loads,
        replicas and times are still counted slide by slide.
    forwarding
        Count, slide by slide, which partial results need no merging by key: `Run.slides`. For
        strategies that can tell, as Dalton can. The merge stage then merges only the others.
    keep_loads
        Keep the load of each worker in each window: `Run.windows.loads`.
    max_pairs
        Above this many distinct (key, worker) pairs the replication is an estimate; see
        `ReplicaCounter`.
    chunk_size
        Records that are read at once. No result depends on it.
    """

    name: ClassVar[str] = "measuring"

    state_windows: int = 5
    slides: int = 1
    forwarding: bool = False
    keep_loads: bool = False
    max_pairs: int = 1 << 25
    chunk_size: int = 1 << 18

    def __post_init__(self) -> None:
        check_types(self)
        require_count(self, "state_windows", "max_pairs", "chunk_size")
        require_count(self, "slides", most=MOST_SLIDES)


def require_parts(strategy: object, workload: object) -> None:
    """Raise ValueError unless these are a strategy and a workload."""
    if isinstance(strategy, str):
        raise ValueError(
            f"strategy must be a strategy such as registry.make({shown(strategy)}), not its name"
        )
    strategy_of(strategy)
    if isinstance(workload, type) or not all(
        hasattr(workload, member) for member in ("name", "n_records", "chunks")
    ):
        raise ValueError(
            f"workload must be a workload such as workloads.make('zipf'), not {shown(workload)}"
        )


def require_capacities(
    capacities: ArrayLike | None, n_workers: int, *, may_be_0: bool = False
) -> Floats:
    """Return the speeds of the workers; raise ValueError unless there is one for each.

    `may_be_0`: some workers may have left, not all.
    """
    if capacities is None:
        return np.ones(n_workers)
    try:
        speeds = np.asarray(capacities, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"capacities must be numbers, not {shown(capacities)}") from None
    if speeds.shape != (n_workers,):
        raise ValueError(
            f"capacities must be one number per worker: {n_workers}, not {speeds.size}"
        )
    allowed = (speeds >= 0) & (speeds.max() > 0) if may_be_0 else speeds > 0
    if not (np.isfinite(speeds) & allowed).all():
        which = "of at least 0, one of them above 0" if may_be_0 else "above 0"
        raise ValueError(f"capacities must be finite numbers {which}, not {shown(speeds.tolist())}")
    return speeds


def start_sources(strategy: AnyStrategy, n_workers: int, n_sources: int, seed: int) -> list[Any]:
    """Return the states of sources that have seen nothing; raise ValueError if memory is short."""
    try:
        first = strategy.start(n_workers, seed, source=0)
    except MemoryError as error:
        raise ValueError(
            f"n_workers: {n_workers:,} workers with {shown(strategy)} need more memory than "
            f"there is: {error}"
        ) from None
    require_memory(
        state_bytes(first) * n_sources,
        f"n_sources: {n_sources:,} sources of {strategy.name} with {n_workers:,} workers",
    )
    return [first, *(strategy.start(n_workers, seed, source=s) for s in range(1, n_sources))]


def require_memory(needed: int, what: str) -> None:
    """Raise ValueError if `needed` bytes are more than this machine is known to have."""
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return
    if needed > there:
        raise ValueError(
            f"{what} need {needed / 2**30:,.1f} GiB, and this machine has {there / 2**30:,.1f}"
        )
