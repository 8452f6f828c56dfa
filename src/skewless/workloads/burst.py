"""Bursts: now and then a new key takes a share of all records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from skewless.arrays import F64, I64, U64, Ints, Words
from skewless.kernels.hashing import draw, to_unit
from skewless.parameters import check_types, require
from skewless.plumbing.compiling import kernel
from skewless.workloads.workload import Ranked
from skewless.workloads.zipf import ZipfShape, fill_zipf, require_zipf, zipf_shape


@kernel
def _overlay(
    shape: ZipfShape, seed: U64, first: I64, period: I64, duration: I64, share: F64, out: Ints
) -> None:
    """Give records of a burst to its key, each with probability `share`."""
    for position in range(out.size):
        record = first + position
        in_burst = record % period >= period - duration
        if in_burst and to_unit(draw(seed, record)) < share:
            out[position] = shape.n_keys + 1 + record // period


@dataclass(frozen=True)
class Burst(Ranked):
    """A Zipf background in which one fresh key bursts at the end of every period.

    During a burst each record belongs to the bursting key with probability `share`, and to the
    background otherwise. Bursting keys are numbered n_keys + 1, n_keys + 2, …, one per period,
    and never come back: nothing learned before the burst helps in it.

    Parameters
    ----------
    z
        The exponent of the background.
    n_keys
        The size of the background's domain.
    n_records
        The length of the stream.
    period
        Records from the end of one burst to the end of the next.
    duration
        Records that a burst lasts, at the end of the period.
    share
        The part of the records of a burst that its key takes.

    Examples
    --------
    >>> stream = Burst(z=1.0, n_keys=100, n_records=12, period=6, duration=3, share=0.9)
    >>> next(stream.ranks(seed=1)).tolist()
    [61, 4, 28, 101, 101, 14, 2, 3, 9, 102, 102, 102]

    References
    ----------
    Dalton, section 1, figure 1, shows the event; the parameters are ours.
    """

    name: ClassVar[str] = "burst"

    z: float = 1.0
    n_keys: int = 100_000
    n_records: int = 10_000_000
    period: int = 1_000_000
    duration: int = 200_000
    share: float = 0.3

    def __post_init__(self) -> None:
        check_types(self)
        require_zipf(self, "z")
        require(self, "period", self.period >= 1, "at least 1")
        until = f"from 0 to the period, which is {self.period}"
        require(self, "duration", 0 <= self.duration <= self.period, until)
        require(self, "share", 0 <= self.share <= 1, "from 0 to 1")

    def fill(self, seeds: Words, first: int, out: Ints) -> None:
        """Fill `out` with ranks, and with the key of each burst."""
        shape = zipf_shape(self.z, self.n_keys)
        fill_zipf(shape, seeds[0], first, 0, 1, out)
        _overlay(shape, seeds[1], first, self.period, self.duration, float(self.share), out)
