"""Zipf streams whose hot keys change, or differ by source: of FISH, of Dalton, and our bursts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from skewless.arrays import F64, I64, U64, Ints, Words
from skewless.kernels.hashing import draw, to_unit
from skewless.parameters import check_types, require
from skewless.plumbing.compiling import kernel
from skewless.workloads.workload import Ranked, segments
from skewless.workloads.zipf import Zipf, ZipfShape, fill_zipf, require_zipf, zipf_shape


@dataclass(frozen=True)
class Periodic(Zipf):
    """What these streams share.

    Parameters
    ----------
    z
        The exponent, from 0 (uniform).
    n_keys
        The size of the domain.
    n_records
        The length of the stream.
    period
        Records until the distribution changes, or begins again.
    """

    z: float = 1.5
    n_records: int = 10_000_000
    period: int = 1_000_000

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "period", self.period >= 1, "at least 1")


@dataclass(frozen=True)
class EvolvingZipf(Periodic):
    """Zipf whose order of keys is reversed during the last part of every period.

    First Pr[key i] ∝ i^−z, then, for the last `reversed_share` of the period,
    Pr[key i] ∝ (n_keys − i + 1)^−z; then the next period begins. A strategy that counts over the
    whole past takes long to see the new hot keys.

    **Reading of the paper**: both of its formulas are printed alike; we take the second to be the
    reversed order, and its N = 5 M to repeat over the 50 M records of the stream.

    Parameters
    ----------
    z, n_keys, n_records, period
        As those of `Periodic`; in the paper z is 1.0 … 2.0, and there are 50 M records.
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
    n_records: int = 50_000_000
    period: int = 5_000_000
    reversed_share: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "reversed_share", 0 <= self.reversed_share <= 1, "from 0 to 1")

    def fill(self, seeds: Words, first: int, out: Ints) -> None:
        """Fill `out` with keys: 1 is the hottest unless the order is reversed."""
        super().fill(seeds, first, out)
        n_straight = self.period - round(self.reversed_share * self.period)
        is_reversed = np.arange(first, first + out.size) % self.period >= n_straight
        np.subtract(self.n_keys + 1, out, out=out, where=is_reversed)


@dataclass(frozen=True)
class Alternating(Periodic):
    """Uniform and Zipf periods in turn, over the same keys: events trend now and then.

    The first period is uniform. The hot keys of all Zipf periods are the same. The parameters are
    those of `Periodic`.

    **Reading of the paper**: it changes the distribution by the clock; we change it every
    `period` records.

    Examples
    --------
    >>> next(Alternating(z=2.0, n_keys=100, n_records=10, period=5).ranks(seed=1)).tolist()
    [10, 62, 25, 65, 35, 2, 1, 1, 1, 1]

    References
    ----------
    Dalton, section 5.2, first case; figures 9a–9c.
    """

    name: ClassVar[str] = "alternating"

    def fill(self, seeds: Words, first: int, out: Ints) -> None:
        """Fill `out` with ranks, by the distribution of each period."""
        for number, start, stop in segments(first, out.size, self.period):
            shape = zipf_shape(self.z if number % 2 else 0.0, self.n_keys)
            fill_zipf(shape, seeds[0], first + start, 0, 1, out[start:stop])


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
    n_keys, n_records, period
        As those of `Periodic`.

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
class Burst(Periodic):
    """A Zipf background in which one fresh key bursts at the end of every period.

    During a burst each record belongs to the bursting key with probability `share`, and to the
    background otherwise. Bursting keys are numbered n_keys + 1, n_keys + 2, …, one per period,
    and never come back: nothing learned before the burst helps in it.

    Parameters
    ----------
    z, n_keys, n_records
        Of the background, as those of `Periodic`.
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
    duration: int = 200_000
    share: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        until = f"from 0 to the period, which is {self.period}"
        require(self, "duration", 0 <= self.duration <= self.period, until)
        require(self, "share", 0 <= self.share <= 1, "from 0 to 1")

    def fill(self, seeds: Words, first: int, out: Ints) -> None:
        """Fill `out` with ranks, and with the key of each burst."""
        super().fill(seeds, first, out)
        shape = zipf_shape(self.z, self.n_keys)
        _overlay(shape, seeds[1], first, self.period, self.duration, float(self.share), out)


@dataclass(frozen=True)
class PerSource(Ranked):
    """Record i is drawn from distribution i mod d, so that each of d sources has its own.

    The key of rank r of distribution j is 1 + (r − 1 + o_j) mod n_keys, where o_j = j · n_keys / d
    if the heavy hitters differ, else 0.

    **Reading of the paper**: its two setups are exponents (0, 1.5), the first source being
    uniform, and exponents (1.5, 1.5) with different heavy hitters, both over one domain. It does
    not say how the heavy hitters differ; we shift the ranks evenly through the domain. One source
    that gets all records in turn is the single partitioner of figure 15.

    Parameters
    ----------
    exponents
        One z per distribution; also as text, `"0,1.5"`.
    n_keys
        The size of the domain.
    n_records
        The length of the stream, of all sources together.
    heavy_hitters
        `"different"`: each distribution has its own; `"same"`: rank r is the same key in all.

    Examples
    --------
    >>> next(PerSource(exponents=(2.0, 2.0), n_keys=100, n_records=8).ranks(seed=1)).tolist()
    [6, 51, 2, 51, 2, 52, 1, 51]

    References
    ----------
    Dalton, section 5.4, figures 13–15.
    """

    name: ClassVar[str] = "per-source"

    exponents: tuple[float, ...] = (0.0, 1.5)
    n_keys: int = 100_000
    n_records: int = 10_000_000
    heavy_hitters: Literal["different", "same"] = "different"

    def __post_init__(self) -> None:
        """Read exponents from text, and refuse parameters out of range."""
        check_types(self)
        given = self.exponents
        try:
            texts = given.split(",") if isinstance(given, str) else given
            object.__setattr__(self, "exponents", tuple(float(text) for text in texts))
        except (TypeError, ValueError):
            require(self, "exponents", False, "numbers with commas between them")
        allowed = len(self.exponents) >= 1 and all(0 <= z <= 20 for z in self.exponents)
        require(self, "exponents", allowed, "one number from 0 to 20 per distribution")
        require_zipf(self)

    def fill(self, seeds: Words, first: int, out: Ints) -> None:
        """Fill `out` with keys, each by the distribution of its source."""
        n_distributions = len(self.exponents)
        for j, z in enumerate(self.exponents):
            begin = (j - first) % n_distributions
            shape = zipf_shape(z, self.n_keys)
            fill_zipf(shape, seeds[0], first, begin, n_distributions, out)
            if self.heavy_hitters == "different":
                own = out[begin::n_distributions]
                own += j * self.n_keys // n_distributions - 1
                own %= self.n_keys
                own += 1
