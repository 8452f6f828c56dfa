"""Short streams that have broken strategies before, for checks without Hypothesis."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays import Keys


class Stream(NamedTuple):
    """Keys in order, to be routed to this many workers."""

    name: str
    keys: Keys
    n_workers: int
    seed: int


def _skewed(n_records: int, n_keys: int, seed: int) -> Keys:
    """Return keys of which the first few carry most records."""
    uniform = np.random.default_rng(seed).random(n_records)
    return (n_keys**uniform).astype(np.uint64)  # log-uniform: Pr[key = k] ∝ about 1/k


def _streams() -> tuple[Stream, ...]:
    one_key = np.full(500, 7, np.uint64)
    distinct = np.arange(2_000, dtype=np.uint64)
    skewed = _skewed(3_000, 500, seed=1)
    return (
        Stream("nothing", np.zeros(0, np.uint64), 4, 1),
        Stream("a single record", np.array([0], np.uint64), 3, 1),
        Stream("one key", one_key, 5, 2),
        Stream("one worker", skewed[:500], 1, 3),
        Stream("more workers than records", skewed[:20], 64, 4),
        Stream("every key once", distinct, 16, 5),
        Stream("extreme hashes", np.array([0, 2**64 - 1, 2**63, 1] * 50, np.uint64), 7, 6),
        Stream("skewed", skewed, 16, 7),
        Stream("hot keys change", np.concatenate([skewed, np.uint64(501) - skewed]), 10, 8),
        Stream("a hot key appears", np.concatenate([distinct, one_key, distinct]), 12, 9),
        Stream("many workers", _skewed(3_000, 2_000, seed=2), 130, 10),
    )


STREAMS = _streams()
