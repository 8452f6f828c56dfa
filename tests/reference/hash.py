"""Key grouping, one key at a time."""

from __future__ import annotations

from collections.abc import Iterable

from reference.kernels.hashing import seeded, seeds, to_worker
from reference.kernels.ring import ReferenceRing


def route(
    keys: Iterable[int], n_workers: int, seed: int, ring: bool = False, virtual_nodes: int = 128
) -> list[int]:
    for_keys, for_ring = seeds(seed, 2)
    if not ring:
        return [to_worker(seeded(int(key), for_keys), n_workers) for key in keys]
    (for_points,) = seeds(for_ring, 1)
    points = ReferenceRing([virtual_nodes] * n_workers, for_points)
    return [points.owner(seeded(int(key), for_keys)) for key in keys]
