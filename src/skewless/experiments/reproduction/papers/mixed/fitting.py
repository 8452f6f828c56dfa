"""Streams that stand in for larger ones, or for data sets that cannot be had."""

from __future__ import annotations

from functools import cache

from skewless.workloads.zipf import zipf_probabilities


@cache
def fitted_z(top_share: float, n_keys: int) -> float:
    """Return the exponent at which the hottest of `n_keys` keys has `top_share` of the records.

    It is exact to four digits, so that equal streams have equal parameters.

    >>> fitted_z(float(zipf_probabilities(0.85, 1_000)[0]), 1_000)
    0.85
    """
    low, high = 0.0, 20.0
    while high - low > 1e-6:
        middle = 0.5 * (low + high)
        if zipf_probabilities(middle, n_keys)[0] < top_share:
            low = middle
        else:
            high = middle
    return round(0.5 * (low + high), 4)


@cache
def same_head(z: float, published_keys: int, n_keys: int) -> float:
    """Return z for fewer keys, so that the hottest key has the share that it was published with.

    What a plan can do depends on how the hottest key compares with the load of a worker. Fewer keys
    with the same z would make it a giant that no worker can hold.

    >>> same_head(0.85, 1_000_000, 1_000_000)
    0.85
    """
    if n_keys >= published_keys:
        return z
    return fitted_z(float(zipf_probabilities(z, published_keys)[0]), n_keys)
