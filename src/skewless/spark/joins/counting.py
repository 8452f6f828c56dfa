"""Counts the keys of both sides of a join in one job that shuffles nothing.

Large tables are thinned. So what the driver gets grows with the logarithm of their rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from skewless.arrays import Floats
from skewless.planning.packing import buckets_of, first_homes
from skewless.planning.pairs import PairCounts, load_of, n_listed
from skewless.spark.columns import internal
from skewless.spark.joins.arguments import JoinSide, Sides
from skewless.spark.routing.planned.thinning import LEVEL, thinned

_HASH, _SIDE = internal("hash"), internal("side")
#: A row is counted for sure if its position times the number of its partition is below 2 ** 17.
_ALL_COUNTED = 17
#: Of a sampled key, so many standard deviations are not counted.
_SURE = 3.0
#: More than Spark can have, so that the driver gets few rows however many partitions there are.
_MOST_PARTITIONS = 1 << 30


class CountedJoin(NamedTuple):
    """What was counted; `buckets` of the counts has pairs and rows, by the rule of `load_of`."""

    counts: PairCounts
    left_rows: int
    right_rows: int
    pairs: int
    is_sampled: bool


def count_pairs(sides: Sides, n_workers: int, seed: int, *, untrusted: bool) -> CountedJoin:
    """Return the rows of the heaviest keys, and the load of each bucket, of all keys but nulls.

    Two rows of a sample that meet by chance stand for thousands of pairs. So a sampled key counts
    with the rows that it has for almost sure; what is left is taken for even.
    """
    rows = [
        _sampled(side, seed, number, untrusted=untrusted)
        for number, side in enumerate((sides.left, sides.right))
    ]
    table = rows[0].union(rows[1]).toArrow()
    sampled, level, side = (table[name].to_numpy() for name in (_HASH, LEVEL, _SIDE))
    is_right = side.astype(bool)  # an empty table has objects
    hashes, at = np.unique(sampled.view(np.uint64), return_inverse=True)
    weight = np.ldexp(1.0, level)

    def sums(chosen: Any, values: Floats) -> Floats:
        return np.bincount(at[chosen], values[chosen], hashes.size).astype(np.float64)

    left, right = sums(~is_right, weight), sums(is_right, weight)
    sure = [
        np.maximum(rows - _SURE * np.sqrt(sums(chosen, weight * (weight - 1))), rows > 0)
        for rows, chosen in ((left, ~is_right), (right, is_right))
    ]
    loads, total = load_of(sure[0], sure[1], sides.how), load_of(left, right, sides.how).sum()
    n_buckets = first_homes(n_workers).size
    buckets = np.bincount(buckets_of(hashes, n_buckets), loads, n_buckets).astype(np.float64)
    buckets += max(total - loads.sum(), 0.0) / n_buckets
    heaviest = np.argsort(-loads, kind="stable")[: n_listed(n_workers)]
    return CountedJoin(
        PairCounts(hashes[heaviest], sure[0][heaviest], sure[1][heaviest], buckets),
        round(float(left.sum())),
        round(float(right.sum())),
        round(float(left @ right)),
        bool(level.any()),
    )


def _sampled(side: JoinSide, seed: int, number: int, *, untrusted: bool) -> DataFrame:
    """Return the hashes of the keys that are counted; each stands for 2 ** `LEVEL` rows.

    The sides are sampled by different numbers: else a row that is joined with itself would be in
    both samples or in none, and the product of their counts be too large.
    """
    rows = thinned(side.df.where(~side.has_null), _ALL_COUNTED, _MOST_PARTITIONS, number)
    hashed = side.hash(seed, untrusted=untrusted).alias(_HASH)
    return rows.select(hashed, LEVEL, F.lit(number == 1).alias(_SIDE))
