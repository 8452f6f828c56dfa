"""Zipf streams that stand in for larger ones, or for data sets that cannot be had."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

_EXACT = 1_000  # so many terms of a sum are added up one by one


def harmonic(n_keys: int, z: float) -> float:
    """Return the sum of i^−z for i = 1 … n_keys, by Euler and Maclaurin beyond the first terms.

    >>> round(harmonic(3, 1.0), 6), round(harmonic(10_000_000, 1.0), 6)
    (1.833333, 16.695311)
    """
    n_exact = min(n_keys, _EXACT)
    total = float((np.arange(1, n_exact + 1, dtype=np.float64) ** -z).sum())
    if n_keys == n_exact:
        return total
    low, high = float(n_exact), float(n_keys)
    area = math.log(high / low) if z == 1.0 else (high ** (1 - z) - low ** (1 - z)) / (1 - z)
    ends = (high**-z - low**-z) / 2
    slopes = z * (low ** (-z - 1) - high ** (-z - 1)) / 12
    return float(total + area + ends + slopes)


def share_of_top(z: float, n_keys: int, n_top: int = 1) -> float:
    """Return the share of the records that the first ranks of a Zipf stream have.

    >>> round(share_of_top(1.0, 3), 3)
    0.545
    """
    return harmonic(n_top, z) / harmonic(n_keys, z)


@cache
def fitted_z(n_keys: int, share: float, n_top: int = 1, digits: int = 4) -> float:
    """Return the exponent with which the first of `n_keys` keys have this share of the records.

    It is rounded, so that it is the same on any machine.

    >>> fitted_z(2_400_000, 0.202), fitted_z(5_700_000, 0.8, n_top=171_000)
    (1.2205, 1.0129)
    >>> fitted_z(100, 0.001)
    Traceback (most recent call last):
        ...
    ValueError: share must be from 0.01 to below 1, not 0.001
    """
    if not n_top / n_keys <= share < 1:
        raise ValueError(f"share must be from {n_top / n_keys:g} to below 1, not {share:g}")
    low, high = 0.0, 20.0
    while high - low > 1e-7:
        middle = (low + high) / 2
        if share_of_top(middle, n_keys, n_top) < share:
            low = middle
        else:
            high = middle
    return round((low + high) / 2, digits)


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
    return fitted_z(n_keys, share_of_top(z, published_keys))
