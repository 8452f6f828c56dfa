"""DKG: heavy keys and buckets as jobs, the longest first, each to the least loaded worker."""

from __future__ import annotations

import math
from collections.abc import Iterable

from reference.kernels.hashing import seeded, seeds, to_worker
from reference.kernels.space_saving import SpaceSavingReference


def longest_first(jobs: list[float], n_workers: int) -> list[int]:
    totals = [0.0] * n_workers
    workers = [-1] * len(jobs)
    for job in sorted(range(len(jobs)), key=lambda job: (-jobs[job], job)):
        workers[job] = totals.index(min(totals))
        totals[workers[job]] += jobs[job]
    return workers


class DKGReference:
    def __init__(
        self,
        n_workers: int,
        seed: int,
        theta: float = 0.5,
        epsilon: float = 0.5,
        buckets: int = 2,
    ) -> None:
        (self.seed,) = seeds(seed, 1)
        self.n_workers = n_workers
        self.theta = theta / n_workers
        self.capacity = math.ceil(n_workers / (theta * epsilon))
        self.buckets = [bucket % n_workers for bucket in range(buckets * n_workers)]
        self.heavy: dict[int, int] = {}
        self.fixed = False

    def bucket(self, key: int) -> int:
        return to_worker(seeded(key, self.seed), len(self.buckets))

    def owner(self, key: int) -> int:
        return self.heavy.get(key, self.buckets[self.bucket(key)])

    def rebalance(
        self, loads: dict[int, float], rest: list[float] | None = None
    ) -> dict[int, tuple[int, int]]:
        """Learn from loads by key, and the rest by worker; return what moves, and where to."""
        rest = rest or [0.0] * self.n_workers
        before = {key: self.owner(key) for key in loads}
        if sum(loads.values()) + sum(rest) > 0 and not self.fixed:
            self.learn(loads, rest)
            self.fixed = True
        return {
            key: (before[key], self.owner(key)) for key in loads if before[key] != self.owner(key)
        }

    def learn(self, loads: dict[int, float], rest: list[float]) -> None:
        summary = SpaceSavingReference(self.capacity)
        for key in sorted(loads):
            if loads[key] > 0:
                summary.offer(key, loads[key])
        enough = self.theta * (sum(loads.values()) + sum(rest))
        heavy = [key for key, count in heaviest_first(summary) if count >= enough]
        light = [0.0] * len(self.buckets)
        for key, load in loads.items():
            if key not in heavy:
                light[self.bucket(key)] += load
        for worker, left in enumerate(rest):
            own = [b for b, at in enumerate(self.buckets) if at == worker] or range(len(light))
            for bucket in own:
                light[bucket] += left / len(own)
        workers = longest_first([*(loads[key] for key in heavy), *light], self.n_workers)
        self.heavy = dict(zip(heavy, workers, strict=False))
        self.buckets = workers[len(heavy) :]


def heaviest_first(summary: SpaceSavingReference) -> Iterable[tuple[int, float]]:
    known = summary.as_dict()
    return [
        (key, known[key][0]) for key in sorted(known, key=lambda k: (-known[k][0], known[k][1], k))
    ]
