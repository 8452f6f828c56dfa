"""Zipf: a few keys have most of the records, and they stay the same."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from skewless.arrays import F64, I64, U64, Floats, Ints, Words
from skewless.kernels.hashing import GOLDEN, draw, mix, to_unit
from skewless.parameters import check_types, require
from skewless.plumbing.compiling import kernel
from skewless.workloads.workload import Ranked

_ABOVE_MINUS_1 = -1.0 + 2.0**-53


class ZipfShape(NamedTuple):
    """What sampling needs to know of a Zipf distribution: six numbers for any number of keys."""

    z: float
    n_keys: int
    low: float  # the area where rank 1 begins
    second: float  # the area where rank 2 begins
    high: float  # the area where the last rank ends
    sure: float  # a sample so close below its rank needs no test


@kernel
def _area(x: F64, z: F64) -> F64:
    """Return the integral of t^−z from 1 to x."""
    log_x = math.log(x)
    return log_x if z == 1.0 else math.expm1((1.0 - z) * log_x) / (1.0 - z)


@kernel
def _area_inverse(area: F64, z: F64) -> F64:
    """Return the x up to which the integral is `area`."""
    if z == 1.0:
        return math.exp(area)
    # Rounding may push the far end of a steep distribution beyond −1, where there is no x.
    power = max(area * (1.0 - z), _ABOVE_MINUS_1)
    # log is several times faster than log1p, and as exact as we need except near z = 1.
    log_power = math.log(1.0 + power) if abs(1.0 - z) > 1e-3 else math.log1p(power)
    return math.exp(log_power / (1.0 - z))


def zipf_shape(z: float, n_keys: int) -> ZipfShape:
    """Compute the constants of `zipf_rank` for Pr[rank i] ∝ i^−z, i = 1 … n_keys."""
    z = float(z)
    return ZipfShape(
        z,
        n_keys,
        _area(1.5, z) - 1.0,
        _area(1.5, z),
        _area(n_keys + 0.5, z),
        2.0 - _area_inverse(_area(2.5, z) - 2.0**-z, z),
    )


@kernel
def zipf_rank(bits: U64, shape: ZipfShape) -> I64:
    """Return the rank that random bits stand for; further bits follow from them where needed.

    Rejection-inversion: a sample x under the curve t^−z is rounded to its rank, and accepted if it
    lies in the part of the rank's area that is as large as the rank's probability.
    """
    if shape.z == 0.0:
        return np.int64(1 + np.int64(to_unit(bits) * shape.n_keys))
    while True:
        area = shape.high + to_unit(bits) * (shape.low - shape.high)
        if area <= shape.second:
            return np.int64(1)  # its area is as large as its probability: nothing to reject
        x = _area_inverse(area, shape.z)
        rank = np.int64(min(math.floor(x + 0.5), shape.n_keys))
        if rank - x <= shape.sure:
            return rank
        if area >= _area(rank + 0.5, shape.z) - math.exp(-shape.z * math.log(rank)):
            return rank
        bits = mix(bits + GOLDEN)


@kernel
def fill_zipf(shape: ZipfShape, seed: U64, first: I64, begin: I64, step: I64, out: Ints) -> None:
    """Fill positions begin, begin + step, … of `out`, which starts at record `first`."""
    for position in range(begin, out.size, step):
        out[position] = zipf_rank(draw(seed, first + position), shape)


def zipf_probabilities(z: float, n_keys: int) -> Floats:
    """Return the probability of each rank, from rank 1 on.

    >>> zipf_probabilities(1.0, 3).round(3).tolist()
    [0.545, 0.273, 0.182]
    """
    weights = np.arange(1, n_keys + 1, dtype=np.float64) ** -float(z)
    return np.asarray(weights / weights.sum())


def require_zipf(owner: object, *exponents: str) -> None:
    """Refuse a bad domain, a bad number of records, or a bad exponent of a workload."""
    for exponent in exponents:
        value = getattr(owner, exponent)
        require(owner, exponent, 0 <= value <= 20, "a number from 0 to 20")
    n_keys, n_records = owner.n_keys, owner.n_records  # type: ignore[attr-defined]
    require(owner, "n_keys", 1 <= n_keys <= 1 << 48, "from 1 to 2^48")
    require(owner, "n_records", n_records >= 0, "at least 0")


@dataclass(frozen=True)
class Zipf(Ranked):
    """A fixed Zipf distribution: Pr[rank i] ∝ i^−z for i = 1 … n_keys.

    Samples are exact and independent, and need no table: neither memory nor time depends on the
    number of keys. z = 0 is the uniform distribution.

    Parameters
    ----------
    z
        The exponent, from 0 (uniform).
    n_keys
        The size of the domain; a short stream will not meet all of it.
    n_records
        The length of the stream.

    Examples
    --------
    >>> next(Zipf(z=1.5, n_keys=1000, n_records=8).ranks(seed=1)).tolist()
    [42, 1, 8, 1, 4, 4, 1, 1]

    References
    ----------
    W. Hörmann, G. Derflinger: Rejection-inversion to generate variates from monotone discrete
    distributions. ACM TOMACS 6(3), 1996.
    """

    name: ClassVar[str] = "zipf"

    z: float = 1.0
    n_keys: int = 100_000
    n_records: int = 1_000_000

    def __post_init__(self) -> None:
        check_types(self)
        require_zipf(self, "z")

    def fill(self, seeds: Words, first: int, out: Ints) -> None:
        """Fill `out` with ranks: 1 is the hottest key."""
        fill_zipf(zipf_shape(self.z, self.n_keys), seeds[0], first, 0, 1, out)
