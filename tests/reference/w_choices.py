"""W-Choices: hot keys to the least loaded of all, found by looking at all."""

from __future__ import annotations

import math
from collections.abc import Iterable

from reference.kernels.hashing import seeded, seeds, two_workers
from reference.kernels.space_saving import SpaceSavingReference


class HotKeys:
    """A summary, and the share of all records above which a key is hot."""

    def __init__(self, n_workers: int, hot_factor: float, capacity: int | None) -> None:
        self.theta = hot_factor / n_workers
        places = math.ceil(n_workers / hot_factor) if capacity is None else capacity
        self.summary = SpaceSavingReference(places)

    def above(self, count: float) -> bool:
        return float(count) > self.theta * float(self.summary.total)

    def offer(self, key: int) -> bool:
        """Count a record of `key`; is the key hot now?"""
        return self.above(float(self.summary.offer(key, 1)))


def route(
    keys: Iterable[int],
    n_workers: int,
    seed: int,
    hot_factor: float = 0.2,
    capacity: int | None = None,
) -> list[int]:
    (own_seed,) = seeds(seed, 1)
    hot_keys = HotKeys(n_workers, hot_factor, capacity)
    loads = [0] * n_workers
    out = []
    for key in keys:
        if hot_keys.offer(int(key)):
            allowed = list(range(n_workers))
        else:
            allowed = list(two_workers(seeded(int(key), own_seed), n_workers))
        worker = min(allowed, key=lambda w: loads[w])
        loads[worker] += 1
        out.append(worker)
    return out
