"""Looks a key up in a filter, which only tests do."""

from __future__ import annotations

from skewless.arrays import U64
from skewless.kernels.hashing import seeded
from skewless.plumbing.compiling import kernel
from skewless.strategies.pstream import bloom as bf


@kernel
def contains(bloom: bf.CountingBloom, key: U64) -> bool:
    """Return whether `key` is in the set, or is a false positive."""
    hashed = seeded(key, bloom.seed[0])
    for number in range(bloom.n_places[0]):
        if bloom.counters[bf.place_of(bloom, hashed, number)] == 0:
            return False
    return True
