"""`join` of batch DataFrames has the rows of Spark's own join, whatever the plan says."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import functions as F

from lanes import slow_except
from skewless.planning.join_plan import JoinPlan
from skewless.planning.pairs import KEPT
from skewless.spark import join, plan_join
from spark.joins.tables import assert_same, hand_made, plain, skewed, table, zipf

pytestmark = pytest.mark.spark

HOWS = list(KEPT)
BOTH = ((1,), (1,))
STALE = 99  # a key that yesterday's rows had
ROWS = st.lists(
    st.tuples(st.sampled_from([0, 1, 2, 3, None]), st.integers(0, 2)), min_size=1, max_size=12
)
GRIDS = st.dictionaries(
    st.sampled_from([0, 1, 2, 3, STALE]), st.tuples(st.integers(1, 3), st.integers(1, 3))
)


@pytest.mark.parametrize("n_examples", slow_except([4], [4, 200]))
def test_any_plan_gives_the_rows_of_sparks_join(spark: Any, n_examples: int) -> None:
    """Rows are repeated, null, on one side only; the plan is of other rows than these."""
    stale = table(spark, [(STALE, 0)])

    @settings(max_examples=n_examples)
    @given(ROWS, ROWS, GRIDS, st.sampled_from(HOWS))
    def holds(left_rows: Any, right_rows: Any, grids: Any, how: str) -> None:
        left, right = table(spark, left_rows), table(spark, right_rows)
        plan = hand_made(left, right, ["k"], how, grids.get, stale)
        assert_same(join(left, right, "k", how=how, plan=plan), plain(left, right, ["k"], how))

    holds()


@pytest.mark.parametrize("how", HOWS)
def test_a_key_that_one_side_has_lost_since_is_returned_once(spark: Any, how: str) -> None:
    """Every key has a grid of 3 × 2 cells; each side has keys that the other has not."""
    left = table(spark, [(key, v) for key in (0, 1, 1, None) for v in range(4)])
    right = table(spark, [(key, v) for key in (1, 2, 2, None) for v in range(3)])
    plan = hand_made(left, right, ["k"], how, lambda _: (3, 2))
    assert_same(join(left, right, "k", how=how, plan=plan), plain(left, right, ["k"], how))


@pytest.mark.parametrize("how", slow_except(["right", "anti"], HOWS))
@pytest.mark.parametrize("hot", slow_except([BOTH], [BOTH, ((1,), (2,)), ((1, 2), (2, 3))]))
def test_a_counted_join_equals_sparks(
    spark: Any, how: str, hot: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    left, right = skewed(spark, 120, hot[0], "v"), skewed(spark, 90, hot[1], "w")
    plan = plan_join(left, right, "k", how=how, workers=4, seed=1)
    assert plan.reason is None
    assert plan.split_keys
    on_both_sides = {str(key) for key in set(hot[0]) & set(hot[1])}
    assert on_both_sides <= {key.name for key in plan.split_keys}
    assert_same(join(left, right, "k", how=how, plan=plan), plain(left, right, ["k"], how))


def test_a_table_is_joined_with_itself(spark: Any) -> None:
    df = skewed(spark, 80, (1,), "v")
    other = df.select("k", F.col("v").alias("v_right"))
    plan = plan_join(df, df, "k", how="full", workers=4)
    ours = join(df, df, "k", how="full", plan=plan)
    assert "REPARTITION_BY_NUM" in ours._jdf.queryExecution().toString()
    assert_same(ours, df.join(other, "k", "full"))


def test_several_columns_and_columns_of_all_kinds(spark: Any) -> None:
    def side(n: int) -> Any:
        a, b = F.col("id") % 2, F.when(F.col("id") % 5 > 0, (F.col("id") % 3).cast("string"))
        m = F.create_map(F.lit("x"), F.col("id"))
        return spark.range(n).select(a.alias("a"), b.alias("b c"), m.alias("m"), F.col("id"))

    left, right = side(40), side(30)
    on = ["a", "b c"]
    plan = hand_made(left, right, on, "left", lambda _: (2, 2))
    assert_same(join(left, right, on, how="left", plan=plan), plain(left, right, on, "left"))


@pytest.mark.parametrize("how", slow_except(["full", "semi"], HOWS))
def test_rows_move_once(spark: Any, how: str) -> None:
    """Each side has one shuffle, and the join is done where the rows are then."""
    left, right = skewed(spark, 120, (1,), "v"), skewed(spark, 10, (1,), "w")
    plan = hand_made(left, right, ["k"], how, lambda key: (4, 1) if key == 1 else None)
    plan = dataclasses.replace(plan, right_rows=10_000)  # so its copies are few
    joined = join(left, right, "k", how=how, plan=plan)
    joined.collect()
    text = joined._jdf.queryExecution().executedPlan().toString().split("== Initial Plan ==")[0]
    assert "SortMergeJoin" in text
    shuffles = [line for line in text.splitlines() if " Exchange " in line]
    extra = how in ("right", "full")  # whether the left side has the hot key is looked up
    assert sum("shufflepartitionidpassthrough" in line for line in shuffles) == 2
    assert len(shuffles) == 2 + extra


@pytest.mark.parametrize(("workers", "z"), [(16, 0.9)])
def test_tasks_have_even_numbers_of_pairs(spark: Any, workers: int, z: float) -> None:
    left, right = zipf(spark, 4_000, 200, z, 1), zipf(spark, 6_000, 200, z, 2)
    joined = join(left, right, "k", plan=plan_join(left, right, "k", workers=workers, seed=1))
    rows = joined.groupBy(F.spark_partition_id().alias("task")).count().collect()
    counts = [row["count"] for row in rows]
    assert max(counts) <= 1.3 * sum(counts) / workers


def test_a_plan_of_a_file_is_used_without_counting(spark: Any, tmp_path: Any) -> None:
    left, right = skewed(spark, 120, (1,), "v"), skewed(spark, 90, (1,), "w")
    plan_join(left, right, "k", workers=4).save(tmp_path / "plan.json")
    plan = JoinPlan.load(tmp_path / "plan.json")
    later = skewed(spark, 100, (2,), "v")
    assert_same(join(later, right, "k", plan=plan), plain(later, right, ["k"], "inner"))
