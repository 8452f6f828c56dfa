"""Test support: small tables, plans by hand, and Spark's own join to compare with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from skewless.planning.join_plan import JoinPlan, PlannedCells
from skewless.spark.joins.arguments import both_sides

WORKERS = 3
SEED = 5
Shape = tuple[int, int]


def table(spark: Any, rows: Sequence[tuple[int | None, int]]) -> DataFrame:
    """Return rows of a key and a value, both int."""
    keys, values = ([row[place] for row in rows] for place in (0, 1))
    columns = {"k": pa.array(keys, pa.int32()), "v": pa.array(values, pa.int32())}
    df: DataFrame = spark.createDataFrame(pa.table(columns))
    return df


def skewed(spark: Any, n: int, hot: tuple[int, ...], name: str) -> DataFrame:
    """Return rows of which nine tenths have one of the hot keys; some keys are null."""
    chosen = F.element_at(F.array(*map(F.lit, hot)), (F.col("id") % len(hot)).cast("int") + 1)
    key = F.when(F.col("id") % 10 == 0, F.col("id") % 37 + 100).otherwise(chosen)
    key = F.when(F.col("id") % 23 != 0, key)
    df: DataFrame = spark.range(0, n, 1, 2).select(key.alias("k"), F.col("id").alias(name))
    return df


def zipf(spark: Any, n_rows: int, n_keys: int, z: float, seed: int) -> DataFrame:
    """Return rows whose keys are distributed by Zipf's law."""
    weights = np.arange(1, n_keys + 1) ** -z
    keys = np.random.default_rng(seed).choice(n_keys, n_rows, p=weights / weights.sum())
    df: DataFrame = spark.createDataFrame(pa.table({"k": keys, "v": np.arange(n_rows)}))
    return df


def plain(left: DataFrame, right: DataFrame, on: list[str], how: str) -> DataFrame:
    """Return Spark's own join, with the columns of the right side renamed."""
    for name in set(right.columns) & set(left.columns) - set(on):
        right = right.withColumnRenamed(name, f"{name}_right")
    return left.join(right, on, how)


def assert_same(ours: DataFrame, others: DataFrame) -> None:
    """Compare columns, types and rows."""
    assert ours.columns == others.columns
    assert [f.dataType for f in ours.schema] == [f.dataType for f in others.schema]
    assert Counter(map(repr, ours.collect())) == Counter(map(repr, others.collect()))


def hand_made(
    left: DataFrame,
    right: DataFrame,
    on: list[str],
    how: str,
    shape: Callable[[Any], Shape | None],
    stale: DataFrame | None = None,
) -> JoinPlan:
    """Return a plan with these shapes for the keys of both sides, and for those of stale rows."""
    sides = both_sides(left, right, on, how, "_right")
    frames = [(sides.left, left), (sides.right, sides.right.df)]
    frames += [] if stale is None else [(sides.left, stale)]
    hashed = [
        df.select(side.hash(SEED, untrusted=False), *[F.col(f"`{name}`") for name in side.key])
        for side, df in frames
    ]
    rows = [row for df in hashed for row in df.distinct().collect()]
    found = {row[0]: row[1:] for row in rows if row[0] is not None}
    keys = []
    for number, value in found.items():
        grid = shape(value[0] if len(value) == 1 else value)
        if grid is None:
            continue
        n_rows, n_columns = grid[0], 1 if how in ("semi", "anti") else grid[1]
        workers = tuple((number + cell) % WORKERS for cell in range(n_rows * n_columns))
        keys.append(PlannedCells(number, 1, 1, n_rows, n_columns, workers))
    return JoinPlan(
        on=tuple(on),
        how=how,
        workers=WORKERS,
        seed=SEED,
        untrusted_keys=False,
        left_rows=1,
        right_rows=1,
        pairs=1,
        is_sampled=False,
        keys=tuple(keys),
        homes=(0, 1, 2, 1),
        loads=(1.0,) * WORKERS,
    )
