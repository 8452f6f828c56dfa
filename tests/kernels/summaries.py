"""Streams with weights, and what a SpaceSaving summary makes of them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from skewless.arrays import Floats, Keys
from skewless.kernels import space_saving as ss
from skewless.plumbing.compiling import kernel


@kernel
def offer_all(summary: ss.SpaceSaving, keys: Keys, weights: Floats, out: Floats) -> None:
    for i in range(keys.size):
        out[i] = ss.offer(summary, keys[i], weights[i])


def offered(capacity: int, keys: Keys, weights: Floats | None = None) -> ss.SpaceSaving:
    summary = ss.space_saving(capacity)
    weights = np.ones(keys.size) if weights is None else weights
    offer_all(summary, keys, weights, np.empty(keys.size))
    return summary


def zipf(z: float, n_keys: int, n_records: int, seed: int) -> Keys:
    rng = np.random.default_rng(seed)
    shares = np.arange(1, n_keys + 1) ** -z
    names = rng.integers(0, 2**64, n_keys, np.uint64)
    return names[rng.choice(n_keys, n_records, p=shares / shares.sum())]


def as_dict(summary: ss.SpaceSaving) -> dict[int, tuple[float, float]]:
    keys, counts, errors = ss.entries(summary)
    return {
        key: (count, error)
        for key, count, error in zip(keys.tolist(), counts.tolist(), errors.tolist(), strict=True)
    }


def true_weights(keys: Keys, weights: Floats | None = None) -> dict[int, float]:
    names, inverse = np.unique(keys, return_inverse=True)
    return dict(zip(names.tolist(), np.bincount(inverse, weights).tolist(), strict=True))


#: Few keys, among them 0 and the largest, and many more that only a long stream would bring.
any_key = st.one_of(st.integers(0, 9), st.integers(2**64 - 3, 2**64 - 1))
#: Sums of these are exact in a float, so the oracle's fractions and the kernel must agree exactly.
any_weight = st.sampled_from([1.0, 1.0, 1.0, 2.0, 0.25, 7.0, 0.0])
offers = st.tuples(any_key, any_weight)
