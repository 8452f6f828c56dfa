"""Dalton's alternation: uniform for one period, Zipf for the next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skewless.arrays import Ints
from skewless.parameters import check_types, require
from skewless.workloads.workload import CHUNK_SIZE, Ranked, draw_seeds, segments, spans
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
        """Refuse parameters out of range."""
        check_types(self)
        require_zipf(self, "z")
        require(self, "period", self.period >= 1, "at least 1")

    def ranks(self, seed: int, chunk_size: int = CHUNK_SIZE) -> Iterator[Ints]:
        """Yield the rank of each record's key, in order."""
        shapes = (zipf_shape(0.0, self.n_keys), zipf_shape(self.z, self.n_keys))
        (draws,) = draw_seeds(seed, 1)
        for first, size in spans(self.n_records, chunk_size):
            out = np.empty(size, np.int64)
            for number, start, stop in segments(first, size, self.period):
                fill_zipf(shapes[number % 2], draws, first + start, 0, 1, out[start:stop])
            yield out
