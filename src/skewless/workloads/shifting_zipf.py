"""Dalton's random shifts: every period has an exponent and hot keys of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skewless.arrays import Ints, Words
from skewless.kernels.hashing import draw, to_unit
from skewless.parameters import check_types, require
from skewless.workloads.workload import Ranked, segments
from skewless.workloads.zipf import fill_zipf, require_zipf, zipf_shape


@dataclass(frozen=True)
class ShiftingZipf(Ranked):
    """Zipf whose exponent and hot keys are drawn anew every period.

    In period p the key of rank r is 1 + (r − 1 + o) mod n_keys, with an offset o drawn for p. Keys
    are hashed, so their place in the domain does not matter: another offset gives other hot keys.

    **Reading of the paper**: it changes the distribution every 1,000 seconds; we change it every
    `period` records. It does not say how other heavy hitters are chosen.

    Parameters
    ----------
    z_min, z_max
        Exponents are uniform between these.
    n_keys
        The size of the domain.
    n_records
        The length of the stream.
    period
        Records until the distribution changes.

    Examples
    --------
    >>> stream = ShiftingZipf(z_min=1.5, z_max=2.5, n_keys=100, n_records=10, period=5)
    >>> next(stream.ranks(seed=1)).tolist()
    [80, 74, 76, 74, 75, 93, 92, 92, 93, 92]

    References
    ----------
    Dalton, section 5.2, second case; figure 9d.
    """

    name: ClassVar[str] = "shifting-zipf"

    z_min: float = 0.5
    z_max: float = 1.5
    n_keys: int = 100_000
    n_records: int = 10_000_000
    period: int = 1_000_000

    def __post_init__(self) -> None:
        check_types(self)
        require_zipf(self, "z_min", "z_max")
        require(self, "z_max", self.z_max >= self.z_min, f"at least z_min, which is {self.z_min}")
        require(self, "period", self.period >= 1, "at least 1")

    def fill(self, seeds: Words, first: int, out: Ints) -> None:
        """Fill `out` with keys."""
        draws, exponents, offsets = seeds
        for number, start, stop in segments(first, out.size, self.period):
            part = out[start:stop]
            share = to_unit(np.uint64(draw(exponents, number)))
            z = self.z_min + share * (self.z_max - self.z_min)
            fill_zipf(zipf_shape(z, self.n_keys), draws, first + start, 0, 1, part)
            part += int(draw(offsets, number)) % self.n_keys - 1
            part %= self.n_keys
            part += 1
