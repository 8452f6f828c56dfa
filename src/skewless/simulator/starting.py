"""What a simulation is given, checked before it starts, and the states with which it starts."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from skewless.arrays import Floats
from skewless.plumbing.arguments import MOST_WORKERS, shown, whole
from skewless.registry import strategy_of
from skewless.state import state_bytes
from skewless.strategy import AnyStrategy

#: The most sources: each has a state of its own.
MOST_SOURCES = 1 << 20


def require_counts(n_workers: object, n_sources: object, window: object) -> tuple[int, int, int]:
    """Return the counts; raise ValueError if they are out of range."""
    return (
        whole(n_workers, "n_workers", least=1, most=MOST_WORKERS),
        whole(n_sources, "n_sources", least=1, most=MOST_SOURCES),
        whole(window, "window", least=1),
    )


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
    """Raise ValueError if `needed` bytes are more than this machine has."""
    there = _memory_bytes()
    if there is not None and needed > there:
        raise ValueError(
            f"{what} need {needed / 2**30:,.1f} GiB, and this machine has {there / 2**30:,.1f}"
        )


def _memory_bytes() -> int | None:
    """Return the memory of this machine, or None if it is not known."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
