"""In a batch, keys that are whole on a worker are finished there; only split keys are merged."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from skewless import aggregations as aggs
from skewless.spark.aggregation.aggregate import aggregate
from spark.streams import WINDOWS, assert_same_rows, assert_same_types, own, plain, records

pytestmark = pytest.mark.spark
N_KEYS = 400
EXCHANGES = re.compile(r"^[\s:+\-*()\d]*Exchange .*", re.MULTILINE)


def zipf_keys(spark: Any, z: float) -> DataFrame:
    shares = np.arange(1, N_KEYS + 1) ** -z
    keys = np.random.default_rng(3).choice(N_KEYS, 20_000, p=shares / shares.sum())
    df: DataFrame = spark.createDataFrame(pa.table({"k": keys, "v": np.arange(keys.size)}))
    return df


def final_plan(df: DataFrame) -> str:
    """Return the plan that was run, without those before it was adapted."""
    text = str(df._jdf.queryExecution().executedPlan().toString())
    return text.split("== Initial Plan ==")[0]


def routed_rows(df: DataFrame) -> list[int]:
    """Count the rows of each shuffle that was run; that of the merge has the fewest."""
    found: list[int] = []

    def walk(plan: Any) -> None:
        if plan.getClass().getSimpleName() == "AdaptiveSparkPlanExec":
            plan = plan.executedPlan()
        while plan.getClass().getSimpleName().endswith("QueryStageExec"):
            plan = plan.plan()
        if plan.getClass().getSimpleName() == "ShuffleExchangeExec":
            found.append(int(plan.metrics().apply("shuffleRecordsWritten").value()))
        children = plan.children()
        for place in range(children.size()):
            walk(children.apply(place))

    walk(df._jdf.queryExecution().executedPlan())
    return found


@pytest.mark.parametrize(("strategy", "window"), [("mixed", "none"), ("hash", "sliding")])
def test_a_strategy_that_keeps_keys_whole_needs_no_second_shuffle(
    spark: Any, strategy: str, window: str
) -> None:
    df = spark.createDataFrame(records(1_000, seed=1))
    ours = aggregate(df, "k", own(), window=WINDOWS[window], strategy=strategy, workers=5)
    rows = ours.collect()
    assert len(EXCHANGES.findall(final_plan(ours))) == 1, final_plan(ours)
    others = plain(df, ["k"], WINDOWS[window])
    assert_same_types(ours, others)
    keys = ["k"] if WINDOWS[window] is None else ["window", "k"]
    assert_same_rows(rows, others.collect(), keys)


@pytest.mark.parametrize("z", [0.0, 1.4])
def test_a_plan_shuffles_one_row_per_whole_key_again_if_it_splits_any(spark: Any, z: float) -> None:
    df = zipf_keys(spark, z)
    chosen = {"n": aggs.count(), "all": aggs.collect("v")}
    ours = aggregate(df, "k", chosen, strategy="plan", workers=8, seed=1)
    rows = ours.collect()
    plan = final_plan(ours)
    assert len(EXCHANGES.findall(plan)) == (2 if z else 1), plan
    expected = df.groupBy("k").agg(F.count("*").alias("n"), F.collect_list("v").alias("all"))
    found = {row["k"]: (row["n"], sorted(row["all"])) for row in rows}
    assert len(found) == len(rows)
    assert found == {row["k"]: (row["n"], sorted(row["all"])) for row in expected.collect()}
    if z:  # at most n − 1 splits
        assert min(routed_rows(ours)) <= len(rows) + 8 - 1


@pytest.mark.parametrize("window", ["none", "sliding"])
def test_a_plan_equals_plain_spark(spark: Any, window: str) -> None:
    df = spark.createDataFrame(records(1_000, seed=1))
    ours = aggregate(df, "k", own(), window=WINDOWS[window], strategy="plan", workers=3)
    others = plain(df, ["k"], WINDOWS[window])
    assert_same_types(ours, others)
    keys = ["k"] if WINDOWS[window] is None else ["window", "k"]
    assert_same_rows(ours.collect(), others.collect(), keys)


def test_records_that_differ_each_time_are_counted_once(spark: Any) -> None:
    """The plan was made of other records; a key is whole or split in all of them."""
    key = F.when(F.rand() < 0.5, 0).otherwise((F.rand() * 50).cast("int"))
    df = spark.range(0, 20_000, 1, 4).withColumn("k", key)
    rows = aggregate(df, "k", {"n": aggs.count()}, strategy="plan", workers=6).collect()
    assert sum(row["n"] for row in rows) == 20_000
    assert len({row["k"] for row in rows}) == len(rows)


def test_a_stream_cannot_be_planned(spark: Any) -> None:
    df = spark.readStream.format("rate").load()
    with pytest.raises(ValueError, match="strategy 'plan': df is a stream"):
        aggregate(df, "value", {"n": aggs.count()}, strategy="plan")
