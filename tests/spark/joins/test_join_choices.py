"""When `join` is Spark's own join, what it refuses, and what is counted of large tables."""

from __future__ import annotations

import dataclasses
import logging
import re
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader

from skewless.planning import join_costs
from skewless.spark import join, plan_join
from skewless.spark.joins import plan_join as planning
from skewless.spark.joins.arguments import both_sides
from skewless.spark.joins.plan_join import _is_small, require_plan
from spark.joins.tables import assert_same, plain, skewed, table

pytestmark = pytest.mark.spark


def even(spark: Any, n: int) -> Any:
    return spark.range(0, n, 1, 2).select((F.col("id") % 500).alias("k"), F.col("id").alias("v"))


def test_without_a_hot_key_it_is_sparks_own_join(
    spark: Any, caplog: pytest.LogCaptureFixture
) -> None:
    left, right = even(spark, 1_000), even(spark, 1_000)
    with caplog.at_level(logging.INFO, "skewless"):
        ours = join(left, right, "k", workers=4)
    assert "join on k: Spark's own join: no key is hot" in caplog.text
    assert "REPARTITION_BY_NUM" not in ours._jdf.queryExecution().toString()
    assert_same(ours, plain(left, right, ["k"], "inner"))


def test_cells_that_save_no_time_are_left_to_spark(
    spark: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A plan that is given is followed all the same."""
    left, right = skewed(spark, 120, (1,), "v"), skewed(spark, 90, (1,), "w")
    with caplog.at_level(logging.INFO, "skewless"):
        ours = join(left, right, "k", workers=4, seed=1)
    assert re.search(r"Spark's own join: it takes about 0\.00 s, and cells 0\.\d\d s", caplog.text)
    assert "REPARTITION_BY_NUM" not in ours._jdf.queryExecution().toString()
    plan = plan_join(left, right, "k", workers=4, seed=1)
    assert "without plan=, `join` is Spark's own: it takes" in str(plan)
    given = join(left, right, "k", plan=plan)
    assert "REPARTITION_BY_NUM" in given._jdf.queryExecution().toString()
    assert_same(ours, given)


def test_cells_that_save_time_are_taken_without_a_plan(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables are small, so here a pair takes a second, as a large one would."""
    monkeypatch.setattr(join_costs, "PAIR", 1.0)
    left, right = skewed(spark, 120, (1,), "v"), skewed(spark, 90, (1,), "w")
    ours = join(left, right, "k", workers=2, seed=1)
    assert "REPARTITION_BY_NUM" in ours._jdf.queryExecution().toString()
    assert_same(ours, plain(left, right, ["k"], "inner"))


def test_spark_splits_partitions_as_its_settings_say(spark: Any) -> None:
    sides = both_sides(*(table(spark, [(1, 1)]) for _ in "lr"), "k", "inner", "_r")
    left, right = planning._splits(sides) or (None, None)
    assert left == right
    assert left is not None
    assert (left.least, left.factor, left.piece) == ((256 << 20) / 16, 5.0, (64 << 20) / 16)
    spark.conf.set("spark.sql.adaptive.skewJoin.enabled", "false")
    assert planning._splits(sides) is None
    spark.conf.unset("spark.sql.adaptive.skewJoin.enabled")


def test_a_small_side_is_left_to_spark_without_counting(
    spark: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skewless.spark.joins.plan_join.count_pairs", None)
    left, right = skewed(spark, 120, (1,), "v"), skewed(spark, 30, (1,), "w")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "10m")
    with caplog.at_level(logging.INFO, "skewless"):
        join(left, right, "k", workers=4)
    assert "Spark's own join: one side is small, and Spark broadcasts it" in caplog.text


def test_a_side_that_turns_out_to_be_small_is_left_to_spark(spark: Any) -> None:
    """Its size is known only when it is counted, as after a filter or an aggregation."""
    left, right = skewed(spark, 120, (1,), "v"), skewed(spark, 30, (1,), "w")
    plan = plan_join(left, right, "k", how="left", workers=4)

    def is_small(how: str) -> bool:
        sides = both_sides(left, right, "k", how, "_r")
        counts = planning.count_pairs(sides, 4, 1, untrusted=False)[0]
        return _is_small(sides, plan, counts)

    assert not is_small("left")  # nothing is broadcast in these tests
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "1k")
    assert is_small("left")
    assert not is_small("right")  # the left side is too large, the right one is kept
    spark.conf.set("spark.sql.adaptive.autoBroadcastJoinThreshold", "-1")
    assert not is_small("left")
    spark.conf.unset("spark.sql.adaptive.autoBroadcastJoinThreshold")
    # Adaptive execution leaves a side alone that fills few partitions.
    n_partitions = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "200")
    assert not is_small("left")
    spark.conf.set("spark.sql.shuffle.partitions", n_partitions)


def test_rows_that_may_be_others_are_not_read_twice(spark: Any) -> None:
    left, right = skewed(spark, 120, (1,), "v"), skewed(spark, 90, (1,), "w")
    some = right.repartition(2).limit(80)
    for how in ("left", "full", "anti"):
        plan = plan_join(left, some, "k", how=how, workers=4)
        assert plan.reason is not None
        assert plan.reason.startswith("right has a limit, a first or a draw")
    assert plan_join(left, some, "k", workers=4).reason is None
    cached = some.cache()
    earlier = plan_join(left, cached, "k", how="full", workers=4)
    assert earlier.reason is None
    cached.unpersist()
    given = require_plan(earlier, both_sides(left, some, "k", "full", "_r"), None)
    assert given.reason == plan.reason


def live_source() -> type[DataSource]:
    """Return a source that Spark reads anew for each scan, as a database or a topic.

    The class is local, so that Spark gets it by value.
    """

    class Rows(DataSourceReader):
        def read(self, partition: Any) -> Any:
            return iter([(1, i) for i in range(60)] + [(i, i) for i in range(60)])

    class Live(DataSource):
        @classmethod
        def name(cls) -> str:
            return "live"

        def schema(self) -> str:
            return "k int, w int"

        def reader(self, schema: Any) -> Any:
            return Rows()

    return Live


def test_an_outer_join_does_not_read_a_live_source_twice(spark: Any) -> None:
    """Between the reads, the matches of a copied row could come or go, and the row with them."""
    spark.dataSource.register(live_source())
    left, live = skewed(spark, 120, (1,), "v"), spark.read.format("live").load()
    for how in ("left", "right", "full"):
        plan = plan_join(left, live, "k", how=how, workers=4)
        assert plan.reason == (
            "right reads no files, so its source may have changed when it is read again: cache it"
        )
    assert plan_join(left, live, "k", workers=4).reason is None
    cached = live.cache()
    assert plan_join(left, cached, "k", how="left", workers=4).reason is None
    cached.unpersist()


@pytest.mark.parametrize("how", ["semi", "anti"])
def test_a_key_with_many_right_rows_is_one_row_where_no_pairs_are_made(
    spark: Any, how: str
) -> None:
    """Such a key cannot be divided by its left rows, and its right rows are all alike."""
    left = even(spark, 500)
    right = spark.range(0, 3_000, 1, 2).select(F.expr("if(id < 2500, 7, id % 500) AS k"))
    # Of 50 seeds, one leaves the key on the worker of its bucket, where it needs no cell.
    plan = plan_join(left, right, "k", how=how.upper(), workers=4, seed=1)
    ours = join(left, right, "k", how=how.upper(), plan=plan)
    assert "REPARTITION_BY_NUM" in ours._jdf.queryExecution().toString()
    assert "Aggregate" in ours._jdf.queryExecution().optimizedPlan().toString()
    assert_same(ours, plain(left, right, ["k"], how))


def test_rows_of_samples_that_meet_by_chance_are_no_hot_key(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each key has one row on each side, and few rows are counted."""
    monkeypatch.setattr(planning, "_ALL_COUNTED", 5)
    ids = spark.range(0, 40_000, 1, 4).select(F.col("id").alias("k"), F.lit(1).alias("v"))
    sides = both_sides(ids, ids, "k", "inner", "_r")
    met = [planning.count_pairs(sides, 64, seed, untrusted=False)[0].left.max() for seed in (1, 2)]
    assert max(met) <= 1
    plan = plan_join(ids, ids, "k", workers=64)
    assert plan.is_sampled
    assert plan.reason is not None
    assert plan.reason.startswith("no key is hot")


def test_empty_tables_are_left_to_spark(spark: Any) -> None:
    left, right = even(spark, 10).where("k < 0"), even(spark, 1_000)
    plan = plan_join(left, right, "k", workers=4)
    assert plan.reason is not None
    assert join(left, right, "k", workers=4).count() == 0


def test_counts_are_exact_for_small_tables(spark: Any) -> None:
    left, right = skewed(spark, 120, (1,), "v"), skewed(spark, 90, (1,), "w")
    plan = plan_join(left, right, "k", workers=4)
    assert not plan.is_sampled
    assert (plan.left_rows, plan.right_rows) == (
        left.where("k is not null").count(),
        right.where("k is not null").count(),
    )
    assert plan.pairs == plain(left, right, ["k"], "inner").count()
    hot = plan.split_keys[0]
    assert (hot.left, hot.right) == (left.where("k = 1").count(), right.where("k = 1").count())


def test_large_partitions_are_sampled(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here from 64 rows on; a self-join samples its two sides apart."""
    monkeypatch.setattr(planning, "_ALL_COUNTED", 6)
    df = skewed(spark, 20_000, (1,), "v")
    sides = both_sides(df, df, "k", "inner", "_r")
    _, found = planning.count_pairs(sides, 4, 1, untrusted=False)
    counts = df.where("k is not null").groupBy("k").count()
    n_rows, n_pairs = counts.agg(F.sum("count"), F.sum(F.col("count") ** 2)).first() or (0, 0)
    assert found["is_sampled"]
    assert found["left_rows"] == pytest.approx(n_rows, rel=0.2)
    assert found["pairs"] == pytest.approx(n_pairs, rel=0.4)


def test_keys_of_many_sampled_rows_count_with_all_of_them(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else they would seem to have half of their rows, and cells would be uneven."""
    monkeypatch.setattr(planning, "_ALL_COUNTED", 10)
    df = spark.range(0, 40_000, 1, 8).select((F.col("id") % 20).alias("k"), "id")
    sides = both_sides(df, df, "k", "inner", "_r")
    counted, found = planning.count_pairs(sides, 4, 1, untrusted=False)
    assert found["is_sampled"]
    # Chance: the standard deviation of the sum is 0.04.
    assert counted.left.sum() == pytest.approx(40_000, rel=0.2)


def test_of_tables_with_many_bytes_fewer_rows_are_counted(spark: Any) -> None:
    small, large = even(spark, 1_000), even(spark, 10_000_000)
    assert not planning.is_large(both_sides(small, small, "k", "inner", "_r"))
    assert planning.is_large(both_sides(small, large, "k", "inner", "_r"))


def test_untrusted_keys_are_hashed_by_another_function(spark: Any) -> None:
    left, right = skewed(spark, 120, (1,), "v"), skewed(spark, 90, (1,), "w")
    plans = [
        plan_join(left, right, "k", workers=4, seed=1, untrusted_keys=untrusted)
        for untrusted in (False, True)
    ]
    assert plans[0].split_keys[0].hash != plans[1].split_keys[0].hash
    ours = join(left, right, "k", plan=plans[1])
    assert_same(ours, plain(left, right, ["k"], "inner"))


REFUSED = [
    ({"how": "cross"}, r"how must be one of 'inner', 'left', .*'anti', not 'cross'"),
    ({"how": None}, r"how must be one of"),
    ({"on": []}, r"on must be the name of a column, or several, not \[\]"),
    ({"on": "x"}, r"on: left: unknown column 'x'"),
    ({"on": ["k", "k"]}, r"key names a column twice"),
    ({"suffix": 3}, r"suffix must be a text, not 3"),
    ({"suffix": ""}, r"suffix: 'v' is the name of another column of the result"),
    ({"workers": 0}, r"workers must be 1 …"),
    ({"seed": -1}, r"seed must be at least 0"),
    ({"untrusted_keys": 3}, r"untrusted_keys must be true or false"),
    ({"ledger": "x"}, r"ledger: it needs within="),
    ({"watermark": ("v", "1 day")}, r"watermark: it needs within="),
    ({"spread": {}}, r"spread: it needs within="),
    ({"plan": "x"}, r"plan must be a JoinPlan, as plan_join returns it, not 'x'"),
    ({"right": 5}, r"right must be a Spark DataFrame, not 5"),
    ({"right": "map"}, r"key: column 'k' is of type map<"),
    ({"right": "struct"}, r"on: Spark cannot compare the keys"),
]


@pytest.mark.parametrize(("wrong", "message"), REFUSED)
def test_bad_arguments_are_refused(spark: Any, wrong: dict[str, Any], message: str) -> None:
    df = table(spark, [(1, 1)])
    right = wrong.get("right", df)
    if right == "map":
        right = df.select(F.create_map("k", "v").alias("k"))
    if right == "struct":
        right = df.select(F.struct("k").alias("k"))
    given = {"on": "k", **{k: v for k, v in wrong.items() if k != "right"}}
    with pytest.raises(ValueError, match=message):
        join(df, right, given.pop("on"), **given)


def test_a_plan_of_another_join_is_refused(spark: Any) -> None:
    df = skewed(spark, 100, (1,), "v")
    plan = plan_join(df, df, "k", workers=4)
    with pytest.raises(ValueError, match="plan: it is for how='inner', not 'left'"):
        join(df, df, "k", how="left", plan=plan)
    with pytest.raises(ValueError, match=r"plan: it is for on=\('k',\), not \('v',\)"):
        join(df, df, "v", plan=plan)
    with pytest.raises(ValueError, match="plan: it is for workers=4, not 5"):
        join(df, df, "k", plan=plan, workers=5)
    with pytest.raises(ValueError, match="plan: leave it out"):
        join(df, df, "k", plan=plan, within="1 hour")
    with pytest.raises(ValueError, match="is for how"):
        join(df, df, "k", plan=dataclasses.replace(plan, how="right"))


def test_hot_keys_that_python_cannot_hold_have_names(spark):
    years = spark.range(400).selectExpr(
        "if(id % 10 < 9, timestamp'+12000-01-01 00:00:00', timestamp'2026-01-01 00:00:00') AS k",
        "id",
    )
    plan = plan_join(years, years.withColumnRenamed("id", "other"), "k", workers=4, seed=1)
    assert [key.name for key in plan.split_keys] == ["+12000-01-01 00:00:00"]
    assert "counted: 400 × 400 rows" in str(plan)
