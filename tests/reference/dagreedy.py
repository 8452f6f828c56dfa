"""DAGreedy: the score of every worker, as a fraction, for every hot record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

from reference.kernels.hashing import seeded, seeds, to_worker

HALF = Fraction(1, 2)


def best(holders: set[int], loads: list[int]) -> int:
    mean = Fraction(sum(loads), len(loads))
    if mean == 0:
        return 0
    scores = [
        HALF * (worker in holders) - HALF * (load - mean) / mean
        for worker, load in enumerate(loads)
    ]
    return scores.index(max(scores))


def route(
    keys: Iterable[int],
    n_workers: int,
    seed: int,
    interval: int = 100_000,
    hot_divisor: int = 100,
) -> list[int]:
    (own_seed,) = seeds(seed, 1)
    hot_above = Fraction(interval, hot_divisor * n_workers)
    loads = [0] * n_workers
    counts: Counter[int] = Counter()
    holders: dict[int, set[int]] = {}
    last_hot: dict[int, int] = {}  # the last interval in which the key was hot
    out = []
    for i, key in enumerate(int(key) for key in keys):
        now = i // interval
        if i % interval == 0:
            counts.clear()
            for known in list(holders):
                if last_hot[known] < now - 1:
                    del holders[known]
        counts[key] += 1
        worker = to_worker(seeded(key, own_seed), n_workers)
        if counts[key] > hot_above:
            if key not in holders:
                was_cold = counts[key] > 1
                holders[key] = {worker} if was_cold else set()
            last_hot[key] = now
            worker = best(holders[key], loads)
            holders[key].add(worker)
        loads[worker] += 1
        out.append(worker)
    return out
