"""Dalton's alternation: uniform for one period, Zipf for the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from skewless.arrays import Ints, Words
from skewless.parameters import check_types, require
from skewless.workloads.workload import Ranked, segments
from skewless.workloads.zipf import fill_zipf, require_zipf, zipf_shape


@dataclass(frozen=True)
class Alternating(Ranked):
    """Uniform and Zipf periods in turn, over the same keys: events trend now and then.

    The first period is uniform. The hot keys of all Zipf periods are the same.

    **Reading of the paper**: it changes the distribution by the clock; we change it every
    `period` records.

    Parameters
    ----------
    z
        The exponent of the Zipf periods.
    n_keys
        The size of the domain.
    n_records
        The length of the stream.
    period
        Records until the distribution changes.

    Examples
    --------
    >>> next(Alternating(z=2.0, n_keys=100, n_records=10, period=5).ranks(seed=1)).tolist()
    [10, 62, 25, 65, 35, 2, 1, 1, 1, 1]

    References
    ----------
    Dalton, section 5.2, first case; figures 9a–9c.
    """

    name: ClassVar[str] = "alternating"

    z: float = 1.5
    n_keys: int = 100_000
    n_records: int = 10_000_000
    period: int = 1_000_000

    def __post_init__(self) -> None:
        check_types(self)
        require_zipf(self, "z")
        require(self, "period", self.period >= 1, "at least 1")

    def fill(self, seeds: Words, first: int, out: Ints) -> None:
        """Fill `out` with ranks, by the distribution of each period."""
        for number, start, stop in segments(first, out.size, self.period):
            shape = zipf_shape(self.z if number % 2 else 0.0, self.n_keys)
            fill_zipf(shape, seeds[0], first + start, 0, 1, out[start:stop])
