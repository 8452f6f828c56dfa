"""Streams that the tests of several strategies route, and how they route them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from skewless.arrays import Keys, Words, Workers
from skewless.kernels.hashing import seed_array, unseeded
from skewless.strategy import AnyStrategy

_KEYS = st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, 2**63, 2**64 - 1])


@st.composite
def _stream(draw: st.DrawFn) -> list[int]:
    """Draw the length first: lists left to themselves hold five elements on average.

    Keys come from a few, some of them several times: so they repeat, tie, become hot and push each
    other out.
    """
    alphabet = draw(st.lists(_KEYS, min_size=1, max_size=12))
    length = draw(st.integers(0, 120))
    return draw(st.lists(st.sampled_from(alphabet), min_size=length, max_size=length))


some_keys = _stream()
#: Often few: then all workers are candidates, candidates are equal, and loads tie.
some_workers = st.integers(1, 6) | st.integers(1, 70)
some_seeds = st.integers(0, 2**32)


def as_keys(keys: list[int]) -> Keys:
    return np.array(keys, np.uint64)


def skewed(n_records: int = 20_000, z: float = 1.2, n_keys: int = 2_000, seed: int = 1) -> Keys:
    """Zipf over the keys 1 … n_keys."""
    weights = np.arange(1, n_keys + 1) ** -z
    ranks = np.random.default_rng(seed).choice(n_keys, n_records, p=weights / weights.sum())
    return (ranks + 1).astype(np.uint64)


def drifting(n_records: int = 20_000, every: int = 700, **shape: Any) -> Keys:
    """Zipf whose hottest key is another one every so many records; none of them comes back."""
    shift = np.arange(n_records) // every
    return skewed(n_records, **shape) + (13 * shift).astype(np.uint64)


def returning(n_records: int = 20_000, every: int = 700, **shape: Any) -> Keys:
    """Zipf with four sets of keys in turn, some stretches long: hot keys go and come back."""
    turn = np.array([0, 1, 0, 0, 2, 1, 3, 3, 3, 0])
    shift = turn[np.arange(n_records) // every % turn.size]
    return skewed(n_records, **shape) + (10_000 * shift).astype(np.uint64)


def routed(
    strategy: AnyStrategy, keys: Keys, n_workers: int, seed: int, *, source: int = 0
) -> Workers:
    out = np.full(keys.size, -1, np.int32)
    strategy.route(keys, strategy.start(n_workers, seed, source=source), out)
    return out


def routed_by_sources(
    strategy: AnyStrategy, keys: Keys, n_workers: int, seed: int, n_sources: int
) -> Workers:
    """Record i goes through source i mod n_sources; the sources know nothing of each other."""
    out = np.full(keys.size, -1, np.int32)
    for source in range(n_sources):
        share = np.ascontiguousarray(keys[source::n_sources])
        out[source::n_sources] = routed(strategy, share, n_workers, seed, source=source)
    return out


def workers_by_key(keys: Keys, workers: Workers) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for key, worker in zip(keys.tolist(), workers.tolist(), strict=True):
        found.setdefault(key, set()).add(worker)
    return found


def imbalance(workers: Workers, n_workers: int) -> float:
    loads = np.bincount(workers, minlength=n_workers)
    return float(loads.max() / loads.mean() - 1)


def keys_with_hash(hashed: Words, seed: int) -> Keys:
    """Return the keys that have these hashes under a seed which is known."""
    return unseeded(hashed, seed_array(seed, 1))


def keys_of_one_order(n_keys: int, n_workers: int, seed: int) -> Keys:
    """Return distinct keys that in Cascade go through the workers in one and the same order."""
    numbers = np.arange(n_keys, dtype=np.uint64)
    apart = np.uint64((1 << 32) // n_workers // 4096)  # all within one home
    upper = np.uint64(int(0.3 * (1 << 32))) + numbers % np.uint64(64) * apart
    lower = np.uint64(1 << 31) + numbers // np.uint64(64)  # all with one step
    return keys_with_hash((upper << np.uint64(32)) | lower, seed)
