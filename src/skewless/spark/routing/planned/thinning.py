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
_PLACE, _SPAN = internal("place"), internal("span")
#: `monotonically_increasing_id` has the row's position in these bits, the partition above them.
_POSITION_BITS = 33
#: Beyond 2 to the power of this, rows are thinned no further: a trillion of rows.
_MOST_SPAN = 40


def thinned(df: DataFrame, all_counted: int, n_partitions: int, salt: int = 0) -> DataFrame:
    """Return some of the rows, with `LEVEL`.

    Of the first partition, the first 2 ** `all_counted` rows are there; of those up to four times
    this position every fourth, up to 16 times every 16th, and so on. A row of the second partition
    counts as one at twice its position, up to `n_partitions` times. So a table in one partition may
    be large and is counted exactly, and many partitions are thinner.
    """
    # As text, since each Column is a call of the JVM, and the verbs wait for these. Comparisons: a
    # logarithm of every position would take longer than to read the keys.
    position = f"({_PLACE} & {(1 << _POSITION_BITS) - 1}L)"
    times = f"least(shiftright({_PLACE}, {_POSITION_BITS}) + 1, {n_partitions})"
    levels = [
        f"WHEN {_SPAN} < {1 << power}L THEN {power - all_counted}"
        for power in (all_counted, *range(all_counted + 2, _MOST_SPAN, 2))
    ]
    level = f"CASE {' '.join(levels)} ELSE {_MOST_SPAN - all_counted} END"
    placed = df.withColumn(_PLACE, F.monotonically_increasing_id())
    placed = placed.withColumn(_SPAN, F.expr(f"{position} * {times}"))
    placed = placed.withColumn(LEVEL, F.expr(level))
    drawn = f"xxhash64({salt}L, {_PLACE}) & (shiftleft(1L, {LEVEL}) - 1) = 0"
    return placed.where(drawn).drop(_PLACE, _SPAN)


def stands_for() -> Column:
    """Return how many rows a row of a thinned DataFrame stands for."""
    return F.expr(f"shiftleft(1L, {LEVEL})")
