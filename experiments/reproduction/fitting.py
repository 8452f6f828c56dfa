"""Zipf streams that stand in for larger ones, or for data sets that cannot be had."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from scipy.optimize import brentq

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
    z = brentq(lambda z: share_of_top(z, n_keys, n_top) - share, 0.0, 20.0, xtol=1e-9)
    return round(float(z), digits)


def expected_keys(z: float, n_keys: int, n_records: int) -> float:
    """Count the keys that occur: rank by rank at first, then in stretches of equal ranks."""
    n_exact = min(n_keys, 10_000)
    edges = np.unique(np.geomspace(n_exact + 1, n_keys + 1, 20_000).astype(np.int64))
    ranks = np.concatenate([np.arange(1.0, n_exact + 1), (edges[:-1] + edges[1:] - 1) / 2])
    sizes = np.concatenate([np.ones(n_exact), np.diff(edges)])
    shares = ranks**-z / harmonic(n_keys, z)
    return float((sizes * -np.expm1(n_records * np.log1p(-shares))).sum())


@cache
def fitted_keys(
    n_distinct: int, n_records: int, *, z: float = 0.0, share: float = 0.0, n_top: int = 1
) -> int:
    """Return from how many keys so many records are to be drawn to have so many distinct ones.

    The exponent is `z`, or, with a `share`, the one that gives it to the first keys. The number is
    rounded to three digits; it is `n_distinct` if nearly all of them occur.

    >>> fitted_keys(1_900_000, 10_000_000, z=1.0), fitted_keys(8_000, 7_000_000, z=1.0)
    (8920000, 8000)
    >>> fitted_keys(2_400_000, 12_000_000, share=0.202)
    Traceback (most recent call last):
        ...
    ValueError: no Zipf stream of 12000000 records has 2400000 distinct keys and this share: 0.202
    """

    def found(n_keys: int) -> float:
        exponent = fitted_z(n_keys, share, n_top) if share else z
        return expected_keys(exponent, n_keys, n_records) / n_distinct

    low, high = n_distinct, 1_000 * n_distinct
    if found(low) >= 0.98:
        return low
    if found(high) < 1.0:
        what = f"{n_distinct} distinct keys and this share: {share:g}"
        raise ValueError(f"no Zipf stream of {n_records} records has {what}")
    while high > 1.0005 * low:
        middle = round((low * high) ** 0.5)
        low, high = (middle, high) if found(middle) < 1.0 else (low, middle)
    digits = int(10 ** (len(str(high)) - 3))
    return round(high / digits) * digits


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
