"""FISH's time-evolving Zipf: for a while in every period the coldest keys are the hottest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skewless.arrays import Ints, Words
from skewless.parameters import check_types, require
from skewless.workloads.workload import Ranked
from skewless.workloads.zipf import fill_zipf, require_zipf, zipf_shape


@dataclass(frozen=True)
class EvolvingZipf(Ranked):
    """Zipf whose order of keys is reversed during the last part of every period.

    First Pr[key i] ∝ i^−z, then, for the last `reversed_share` of the period,
    Pr[key i] ∝ (n_keys − i + 1)^−z; then the next period begins. A strategy that counts over the
    whole past takes long to see the new hot keys.

    **Reading of the paper**: both of its formulas are printed alike; we take the second to be the
    reversed order, and its N = 5 M to repeat over the 50 M records of the stream.

    Parameters
    ----------
    z
        The exponent, from 0 (uniform); 1.0 … 2.0 in the paper.
    n_keys
        The size of the domain.
    n_records
        The length of the stream; 50 M in the paper.
    period
        Records after which it starts again.
    reversed_share
        The part of the period, at its end, in which the order is reversed.

    Examples
    --------
    >>> stream = EvolvingZipf(z=2.0, n_keys=100, n_records=10, period=5, reversed_share=0.4)
    >>> next(stream.ranks(seed=1)).tolist()
    [6, 1, 2, 100, 99, 2, 1, 1, 100, 100]

    References
    ----------
    FISH, section 6.1 (the synthetic dataset ZF).
    """

    name: ClassVar[str] = "evolving-zipf"

    z: float = 1.4
    n_keys: int = 100_000
    n_records: int = 50_000_000
    period: int = 5_000_000
    reversed_share: float = 0.2

    def __post_init__(self) -> None:
        check_types(self)
        require_zipf(self, "z")
        require(self, "period", self.period >= 1, "at least 1")
        require(self, "reversed_share", 0 <= self.reversed_share <= 1, "from 0 to 1")

    def fill(self, seeds: Words, first: int, out: Ints) -> None:
        """Fill `out` with keys: 1 is the hottest unless the order is reversed."""
        fill_zipf(zipf_shape(self.z, self.n_keys), seeds[0], first, 0, 1, out)
        n_straight = self.period - round(self.reversed_share * self.period)
        is_reversed = np.arange(first, first + out.size) % self.period >= n_straight
        np.subtract(self.n_keys + 1, out, out=out, where=is_reversed)
