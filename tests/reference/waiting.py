"""Who waits least: all of them compared, in whole records of the fastest worker."""

from __future__ import annotations

from collections.abc import Iterable

TICKS = 1024


def least_waiting(ticks: list[int], allowed: Iterable[int]) -> int:
    return min(allowed, key=lambda worker: (ticks[worker] // TICKS, worker))
