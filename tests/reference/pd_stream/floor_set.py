"""The lightest of some workers by looking at their counts."""

from __future__ import annotations

from collections.abc import Iterable

from numpy.typing import NDArray


def with_count(counts: NDArray, level: int) -> set[int]:
    return {worker for worker, count in enumerate(counts.tolist()) if count == level}


def lightest_of(counts: NDArray, workers: Iterable[int], start: int) -> int:
    """Of equals, the first going round from `start`."""
    return min(workers, key=lambda worker: (counts[worker], (worker - start) % counts.size))
