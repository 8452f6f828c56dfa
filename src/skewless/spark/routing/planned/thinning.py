"""Counts large tables by a sample that becomes thinner along each partition.

Small tables are counted exactly, large ones cost little more than reading their keys, and no size
must be known before.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skewless.spark.columns import internal

#: The column of a thinned DataFrame: each row stands for 2 to the power of this number.
LEVEL = internal("level")
_PLACE = internal("place")
#: `monotonically_increasing_id` has the row's position in these bits, the partition above them.
_POSITION_BITS = 33


def thinned(df: DataFrame, all_counted: int, n_partitions: int, salt: int = 0) -> DataFrame:
    """Return some of the rows, with `LEVEL`.

    Of the first partition, the first 2 ** `all_counted` rows are there; of the next as many every
    second, of the next twice as many every fourth, and so on. A row of the second partition counts
    as one at twice its position, up to `n_partitions` times. So a table in one partition may be
    large and is counted exactly, and many partitions are thinner.
    """
    place = F.col(_PLACE)
    position = place.bitwiseAND(F.lit((1 << _POSITION_BITS) - 1)) + 1
    times = F.least(F.shiftright(place, _POSITION_BITS) + 1, F.lit(n_partitions))
    level = F.floor(F.log2(position.cast("double") * times)) - all_counted + 1
    placed = df.withColumn(_PLACE, F.monotonically_increasing_id())
    placed = placed.withColumn(LEVEL, F.greatest(level, F.lit(0)).cast("int"))
    drawn = F.pmod(F.xxhash64(F.lit(salt), place), stands_for()) == 0
    return placed.where(drawn).drop(_PLACE)


def stands_for() -> Column:
    """Return how many rows a row of a thinned DataFrame stands for."""
    return F.expr(f"shiftleft(1L, {LEVEL})")
