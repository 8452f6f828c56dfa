"""Hashing in Python's own integers, cut to 64 bits by hand."""

from __future__ import annotations

from collections.abc import Iterator

from skewless.kernels.hashing import seed_array

TWO_TO_32 = 2**32
TWO_TO_64 = 2**64
GOLDEN = 0x9E3779B97F4A7C15


def seeds(seed: int, n: int) -> list[int]:
    return [int(word) for word in seed_array(seed, n)]


def mix(x: int) -> int:
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % TWO_TO_64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % TWO_TO_64
    return x ^ (x >> 31)


def seeded(key: int, seed: int) -> int:
    return mix(mix((key + GOLDEN) % TWO_TO_64) ^ seed)


def scaled(half: int, n_workers: int) -> int:
    """A number below 2^32 becomes a worker: which of n equal ranges is it in?"""
    return half * n_workers // TWO_TO_32


def to_worker(hashed: int, n_workers: int) -> int:
    return scaled(hashed // TWO_TO_32, n_workers)


def two_workers(hashed: int, n_workers: int) -> tuple[int, int]:
    upper, lower = divmod(hashed, TWO_TO_32)
    return scaled(upper, n_workers), scaled(lower, n_workers)


def candidates(hashed: int, n_workers: int) -> Iterator[int]:
    """The endless sequence of a key's workers: the two of its hash, then one mixing each."""
    yield from two_workers(hashed, n_workers)
    j = 2
    while True:
        yield to_worker(mix((hashed + j * GOLDEN) % TWO_TO_64), n_workers)
        j += 1
