"""Partial key grouping: the lighter of two, the first of equals."""

from __future__ import annotations

from collections.abc import Iterable

from reference.kernels.hashing import seeded, seeds, two_workers


def route(keys: Iterable[int], n_workers: int, seed: int) -> list[int]:
    (own_seed,) = seeds(seed, 1)
    loads = [0] * n_workers
    out = []
    for key in keys:
        pair = two_workers(seeded(int(key), own_seed), n_workers)
        worker = min(pair, key=lambda w: loads[w])
        loads[worker] += 1
        out.append(worker)
    return out
