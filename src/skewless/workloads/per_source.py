"""Dalton's distributions per source: what one source sees says little about another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from skewless.arrays import Ints, Words
from skewless.parameters import check_types, require
from skewless.workloads.workload import Ranked
from skewless.workloads.zipf import fill_zipf, require_zipf, zipf_shape


@dataclass(frozen=True)
class PerSource(Ranked):
    """Record i is drawn from distribution i mod d, so that each of d sources has its own.

    The key of rank r of distribution j is s_j + 1 + (r − 1 + o_j) mod n_keys, where the domain
    begins at s_j = j · (1 − overlap) · n_keys, and o_j = j · n_keys / d if the heavy hitters
    differ, else 0.

    **Reading of the paper**: its two setups are exponents (0, 1.5), the first source being
    uniform, and exponents (1.5, 1.5) with different heavy hitters, both over one domain. It does
    not say how the heavy hitters differ; we shift the ranks evenly through the domain. The
    `overlap` of domains is ours. One source that gets all records in turn is the single
    partitioner of figure 15.

    Parameters
    ----------
    exponents
        One z per distribution; also as text, `"0,1.5"`.
    n_keys
        The size of each domain.
    n_records
        The length of the stream, of all sources together.
    heavy_hitters
        `"different"`: each distribution has its own; `"same"`: rank r is the same key in all.
    overlap
        The part of its domain that a distribution shares with the one before it: 1 means that
        all have one domain, 0 that no key is seen by two.

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
    overlap: float = 1.0

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
        require(self, "overlap", 0 <= self.overlap <= 1, "from 0 to 1")

    def fill(self, seeds: Words, first: int, out: Ints) -> None:
        """Fill `out` with keys, each by the distribution of its source."""
        n_distributions = len(self.exponents)
        for j, z in enumerate(self.exponents):
            begin = (j - first) % n_distributions
            shape = zipf_shape(z, self.n_keys)
            fill_zipf(shape, seeds[0], first, begin, n_distributions, out)
            own = out[begin::n_distributions]
            if self.heavy_hitters == "different":
                own += j * self.n_keys // n_distributions - 1
                own %= self.n_keys
                own += 1
            own += round(j * (1 - self.overlap) * self.n_keys)
