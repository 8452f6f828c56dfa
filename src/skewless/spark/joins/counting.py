"""Counts the keys of both sides of a join in one job: the heaviest, and the load of each bucket.

A partition of many rows is counted by a sample that becomes thinner along the partition. So small
tables are counted exactly, large ones cost little more than reading their keys, and no size must be
known before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skewless.planning.packing import first_homes
from skewless.planning.pairs import ROW, WITHOUT_PAIRS, PairCounts, n_listed
from skewless.spark.columns import internal
from skewless.spark.joins.arguments import JoinSide, Sides

_HASH, _WEIGHT, _PLACE = internal("hash"), internal("weight"), internal("place")
_LEFT, _RIGHT, _LOAD, _PAIRS = (internal(name) for name in ("left", "right", "load", "pairs"))
_KIND, _SAMPLED = internal("kind"), internal("sampled")
#: The first 2 ** 17 rows of a partition are counted; of the next 2 ** 17 every second, and so on.
_ALL_COUNTED = 17
#: `monotonically_increasing_id` has the row's position in these bits, the partition above them.
_POSITION_BITS = 33


class CountedJoin(NamedTuple):
    """What was counted; `buckets` of the counts has pairs and rows, by the rule of `load_of`."""

    counts: PairCounts
    left_rows: int
    right_rows: int
    pairs: int
    is_sampled: bool


def count_pairs(sides: Sides, n_workers: int, seed: int, *, untrusted: bool) -> CountedJoin:
    """Return the rows of the heaviest keys, and the load of each bucket, of all keys but nulls."""
    hashed = [
        _sampled(side, seed, number, untrusted=untrusted)
        for number, side in enumerate((sides.left, sides.right))
    ]
    none = F.lit(0.0)
    weight, thinned = F.col(_WEIGHT), (F.col(_WEIGHT) > 1).alias(_SAMPLED)
    rows = hashed[0].select(_HASH, weight.alias(_LEFT), none.alias(_RIGHT), thinned)
    rows = rows.union(hashed[1].select(_HASH, none.alias(_LEFT), weight.alias(_RIGHT), thinned))
    sums = [F.sum(name).alias(name) for name in (_LEFT, _RIGHT)]
    keys = rows.groupBy(_HASH).agg(*sums, F.max(_SAMPLED).alias(_SAMPLED))
    pairs = F.col(_LEFT) * F.col(_RIGHT)
    load = F.col(_LEFT) + F.col(_RIGHT)
    if sides.how not in WITHOUT_PAIRS:
        load = pairs + F.lit(ROW) * load
    keys = keys.select("*", pairs.alias(_PAIRS), load.alias(_LOAD))
    names = (_LEFT, _RIGHT, _PAIRS, _LOAD)
    n_buckets = first_homes(n_workers).size
    bucket = F.pmod(F.col(_HASH), F.lit(n_buckets)).alias(_HASH)
    buckets = keys.groupBy(bucket).agg(
        *[F.sum(name).alias(name) for name in names], F.max(_SAMPLED).alias(_SAMPLED)
    )
    heaviest = keys.orderBy(F.desc(_LOAD), _HASH).limit(n_listed(n_workers))

    def told(df: DataFrame, is_key: bool) -> DataFrame:
        return df.select(F.lit(is_key).alias(_KIND), _HASH, *names, _SAMPLED)

    return _counted(told(buckets, False).union(told(heaviest, True)), n_buckets)


def _counted(rows: DataFrame, n_buckets: int) -> CountedJoin:
    """Return the counts of a table that has those of buckets and those of keys."""
    table = rows.toArrow()
    found = {name: table[name].to_numpy() for name in table.column_names}
    is_key = found[_KIND].astype(bool)
    at = found[_HASH][~is_key]
    buckets = np.zeros(n_buckets)
    buckets[at] = found[_LOAD][~is_key]
    order = np.flatnonzero(is_key)
    order = order[np.lexsort((found[_HASH][order], -found[_LOAD][order]))]
    hashes, left, right = (found[name][order] for name in (_HASH, _LEFT, _RIGHT))
    n_left, n_right, n_pairs = (
        round(float(found[name][~is_key].sum())) for name in (_LEFT, _RIGHT, _PAIRS)
    )
    return CountedJoin(
        PairCounts(hashes.view(np.uint64), left, right, buckets),
        n_left,
        n_right,
        n_pairs,
        bool(found[_SAMPLED].any()),
    )


def _sampled(side: JoinSide, seed: int, salt: int, *, untrusted: bool) -> DataFrame:
    """Return the hashes of the keys that are counted, and how many rows each row stands for.

    The sides are sampled by different numbers: else a row that is joined with itself would be in
    both samples or in none, and the product of their counts be too large.
    """
    place = F.monotonically_increasing_id().alias(_PLACE)
    known = side.df.where(~side.has_null)
    hashed = known.select(side.hash(seed, untrusted=untrusted).alias(_HASH), place)
    position = F.col(_PLACE).bitwiseAND(F.lit((1 << _POSITION_BITS) - 1))
    level = F.greatest(F.floor(F.log2(position + 1)) - _ALL_COUNTED + 1, F.lit(0)).cast("int")
    every: Column = F.expr(f"shiftleft(1L, {internal('level')})")
    thinned = hashed.select(_HASH, _PLACE, level.alias(internal("level")))
    drawn = F.pmod(F.xxhash64(F.lit(salt), F.col(_PLACE)), every) == 0
    return thinned.where(drawn).select(_HASH, every.cast("double").alias(_WEIGHT))
