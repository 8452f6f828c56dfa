"""From advice to action: records are partitioned in the way that is predicted to be fastest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import functions as F

from skewless.spark import hot_keys

pytestmark = pytest.mark.spark
N, WORKERS = 8_000, 4


@pytest.fixture(scope="module")
def df(spark: Any) -> Any:
    key = F.when(F.col("id") % 2 == 0, "hot").otherwise((F.col("id") % 101).cast("string"))
    return spark.range(0, N, 1, 3).select("id", key.alias("k"))


def test_every_way_gives_the_same_columns_and_all_records(df: Any) -> None:
    found = hot_keys(df, "k", workers=WORKERS, strategies="hash", per_record=1e-4, per_pair=1e-4)
    names = [one.strategy for one in found.predictions]
    assert {"plan", "whole-plan", "hot-salt-8", "salt-4", "local", "round-robin"} <= {*names}
    for name in names:
        only = tuple(
            replace(p, seconds=0.0 if p.strategy == name else 9.0) for p in found.predictions
        )
        if name.startswith("hot-salt"):  # it is shown, to compare: a plan does better
            assert replace(found, predictions=only).best().strategy == "hash"
            continue
        partitioned = replace(found, predictions=only).apply(df, column="at")
        assert partitioned.columns == ["id", "k", "at"]
        rows = partitioned.withColumn("partition", F.spark_partition_id()).collect()
        assert sorted(row["id"] for row in rows) == list(range(N)), name
        assert all(row["partition"] == row["at"] for row in rows), name
        of_hot = {row["at"] for row in rows if row["k"] == "hot"}
        assert (len(of_hot) == 1) == (name in ("hash", "whole-plan")), name


def test_without_costs_a_skewed_job_is_planned_and_keys_may_stay_whole(df: Any) -> None:
    found = hot_keys(df, "k", workers=WORKERS)
    loads = found.apply(df).groupBy("worker").count().collect()
    assert max(row["count"] for row in loads) <= 1.15 * N / WORKERS
    whole = found.apply(df, whole_keys=True).groupBy("k").agg(F.count_distinct("worker").alias("n"))
    assert {row["n"] for row in whole.collect()} == {1}
    with pytest.raises(ValueError, match="has a column 'k' already"):
        found.apply(df, column="k")
    with pytest.raises(ValueError, match="whole_keys must be True or False"):
        found.apply(df, whole_keys=1)  # type: ignore[arg-type]
