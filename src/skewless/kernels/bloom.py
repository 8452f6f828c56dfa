"""Counting Bloom filter: a set of keys in fixed memory that may claim a few more, and can forget.

A key is in the set when all of its counters are above 0. Counters have 8 bits and saturate: one
that ever reached 255 stays there, for nobody knows any longer how many keys it stands for. So no
key of the set is ever missed, and after very many additions a few strangers more are let in.

References
----------
L. Fan, P. Cao, J. Almeida, A. Broder: Summary cache, IEEE/ACM Transactions on Networking 2000,
section V. Places by double hashing: A. Kirsch, M. Mitzenmacher: Less hashing, same performance,
ESA 2006.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from skewless._jit import kernel
from skewless.arrays import I64, U64, Bytes, Ints, Words
from skewless.kernels.hashing import mix, seed_array, seeded, to_worker

_SATURATED = np.uint8(255)
_ONE = np.uint8(1)
_ODD = np.uint64(1)


class CountingBloom(NamedTuple):
    """Counters, and how many of them a key has."""

    counters: Bytes
    n_places: Ints  # [counters per key]
    seed: Words  # [seed of the hash]


def counting_bloom(n_keys: int, false_positive_rate: float, *, seed: int = 0) -> CountingBloom:
    """Return an empty set that, with `n_keys` keys in it, claims this share of all others.

    >>> counting_bloom(1000, 0.01).counters.size
    9586
    """
    if n_keys < 1:
        raise ValueError(f"n_keys must be an integer of at least 1, not {n_keys!r}")
    if not 0 < false_positive_rate < 1:
        raise ValueError(
            f"false_positive_rate must be above 0 and below 1, not {false_positive_rate!r}"
        )
    # The fewest counters are needed when half of them are 0, which takes log2(1 / rate) per key.
    n_counters = math.ceil(n_keys * math.log(1 / false_positive_rate) / math.log(2) ** 2)
    n_places = max(1, round(n_counters / n_keys * math.log(2)))
    return CountingBloom(
        counters=np.zeros(n_counters, np.uint8),
        n_places=np.array([n_places], np.int64),
        seed=seed_array(seed, 1),
    )


@kernel
def place_of(bloom: CountingBloom, hashed: U64, number: I64) -> I64:
    """Return the counter of this number of a key with this hash."""
    step = mix(hashed) | _ODD
    return np.int64(to_worker(hashed + np.uint64(number) * step, bloom.counters.size))


@kernel
def add(bloom: CountingBloom, key: U64) -> None:
    """Put `key` in once (more)."""
    hashed = seeded(key, bloom.seed[0])
    for number in range(bloom.n_places[0]):
        place = place_of(bloom, hashed, number)
        if bloom.counters[place] < _SATURATED:
            bloom.counters[place] += _ONE


@kernel
def remove(bloom: CountingBloom, key: U64) -> None:
    """Take `key` out once. It must have been put in: another one would take others out with it."""
    hashed = seeded(key, bloom.seed[0])
    for number in range(bloom.n_places[0]):
        place = place_of(bloom, hashed, number)
        if 0 < bloom.counters[place] < _SATURATED:
            bloom.counters[place] -= _ONE


@kernel
def contains(bloom: CountingBloom, key: U64) -> bool:
    """Return whether `key` is in the set, or looks like it."""
    hashed = seeded(key, bloom.seed[0])
    for number in range(bloom.n_places[0]):
        if bloom.counters[place_of(bloom, hashed, number)] == 0:
            return False
    return True


@kernel
def clear(bloom: CountingBloom) -> None:
    """Take all keys out."""
    for place in range(bloom.counters.size):
        bloom.counters[place] = 0


def merge(blooms: Sequence[CountingBloom]) -> CountingBloom:
    """Return the set that holds each key as often as all `blooms` together."""
    if not blooms:
        raise ValueError("blooms must hold at least one filter, not none")
    first = blooms[0]
    for other in blooms[1:]:
        if (
            other.counters.size != first.counters.size
            or other.n_places[0] != first.n_places[0]
            or other.seed[0] != first.seed[0]
        ):
            raise ValueError("blooms must have the same size, rate and seed to be merged")
    summed = np.sum([bloom.counters for bloom in blooms], axis=0, dtype=np.int64)
    return CountingBloom(
        counters=np.minimum(summed, int(_SATURATED)).astype(np.uint8),
        n_places=first.n_places.copy(),
        seed=first.seed.copy(),
    )
