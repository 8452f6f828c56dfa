"""The shortest waiting time: all of them compared, in whole records of the fastest worker."""

from __future__ import annotations

from collections.abc import Iterable

TICKS = 1024


def in_turn(worker: int, turn: int, n_workers: int) -> int:
    """How many workers come before this one where levels are equal."""
    return (worker - turn) % n_workers


def least_waiting(ticks: list[int], allowed: Iterable[int], turn: int = 0) -> int:
    n = len(ticks)
    return min(allowed, key=lambda worker: (ticks[worker] // TICKS, in_turn(worker, turn, n)))
