"""With splitting strategies too, a batch merges the states of split keys alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.on_spark.ways import merged_bytes, sketch
from keys.colliding_strings import colliding_strings
from lanes import slow_except
from skewless import aggregations as aggs
from skewless.spark.aggregation.aggregate import Routed, aggregate
from skewless.strategies import CascadeAhead
from skewless.strategies.cascade.orders import InOrders
from spark.streams import assert_same_rows, assert_same_types, own, plain, records

pytestmark = pytest.mark.spark
STRATEGIES = (
    "cascade",
    "cascade-ahead",
    "fish",
    "pd-stream",
    "dalton",
    "pstream",
    "w-choices",
    "pkg",
)


@pytest.fixture(scope="module")
def uneven(spark: Any) -> DataFrame:
    """Two sources with different data: each has another hot key."""
    one, other = (spark.createDataFrame(records(600, seed=seed)).coalesce(1) for seed in (1, 2))
    is_hot = F.col("k") == "hot"
    df: DataFrame = one.union(other.withColumn("k", F.when(is_hot, "2nd").otherwise(F.col("k"))))
    return df


def product() -> Any:
    """Return the shape of Spark's own Aggregator; its class is sent by value."""

    class Product:
        def zero(self) -> int:
            return 1

        def reduce(self, buffer: int, value: int | None) -> int:
            return buffer * (1 if value is None else value % 5 + 1) % 1_000_003

        def merge(self, one: int, other: int) -> int:
            return one * other % 1_000_003

        def finish(self, buffer: int) -> int:
            return buffer

    return aggs.reducing(Product(), inputs="v", state="bigint", result="bigint")


def rows_of(df: DataFrame) -> Any:
    return sorted(df.collect(), key=repr)


@pytest.mark.parametrize("strategy", slow_except(("cascade-ahead", "fish"), STRATEGIES))
def test_splitting_strategies_equal_plain_spark(uneven: DataFrame, strategy: str) -> None:
    key = ["k", "w"]
    ours = aggregate(uneven, key, own(), strategy=strategy, workers=5, seed=1)
    others = plain(uneven, key, None)
    assert_same_types(ours, others)
    assert_same_rows(ours.collect(), others.collect(), key)


@pytest.mark.parametrize(
    "arguments",
    [
        {"workers": 1},
        {"untrusted_keys": True},
        {"weight": "w"},
        pytest.param({"capacities": [1, 0, 2, 1]}, marks=pytest.mark.slow),
        pytest.param({"strategy": "pkg", "untrusted_keys": True}, marks=pytest.mark.slow),
    ],
)
def test_every_way_to_route_gives_what_combining_at_the_sources_gives(
    uneven: DataFrame, arguments: dict[str, Any]
) -> None:
    chosen = {"p": product(), "n": aggs.count()}
    routed = {"strategy": "cascade", "workers": 4, "seed": 2} | arguments
    ours = aggregate(uneven, "k", chosen, **routed)
    assert rows_of(ours) == rows_of(aggregate(uneven, "k", chosen, strategy="local"))


def test_no_records_and_one_key(uneven: DataFrame) -> None:
    for df, n_keys in ((uneven.where("false"), 0), (uneven.where("k = '2nd'"), 1)):
        ours = aggregate(
            df, "k", {"p": product(), "n": aggs.count()}, strategy="cascade", workers=3
        )
        rows = ours.collect()
        assert len(rows) == n_keys
        assert sum(row["n"] for row in rows) == df.count()


def test_states_of_whole_keys_are_not_shuffled_again(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = 1.0 / np.arange(1, 501)
    keys = np.random.default_rng(3).choice(500, 2_000, p=shares / shares.sum())
    df = spark.createDataFrame(pa.table({"key": keys})).repartition(2).cache()
    df.count()

    def shuffled() -> int:
        ours = aggregate(df, "key", {"n": sketch()}, strategy="cascade-ahead", workers=4, seed=1)
        assert sum(row["n"] for row in ours.collect()) == keys.size
        return merged_bytes(ours)

    found = shuffled()
    monkeypatch.delattr(InOrders, "homes")
    before = shuffled()
    assert before > 32_768 * np.unique(keys).size
    assert found < 0.1 * before
    hashed = aggregate(df, "key", {"n": sketch()}, strategy="hash", workers=4)
    hashed.collect()
    assert merged_bytes(hashed) == 0


def test_keys_with_the_same_hash_have_results_of_their_own(spark: Any) -> None:
    strings = colliding_strings(30)
    df = spark.createDataFrame(pa.table({"k": strings * 20, "v": np.arange(600)})).repartition(2)
    chosen = {"p": product(), "n": aggs.count()}
    ours = aggregate(df, "k", chosen, strategy="cascade-ahead", workers=4)
    assert rows_of(ours) == rows_of(aggregate(df, "k", chosen, strategy="local"))


def test_streams_windows_and_sparks_own_merge_stay_as_they_are(
    spark: Any, uneven: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[bool] = []
    tells = Routed._tells_homes
    monkeypatch.setattr(Routed, "_tells_homes", lambda self: told.append(tells(self)) or told[-1])
    own_ones, ready = {"p": product()}, {"n": aggs.count()}
    stream = spark.readStream.format("rate").load().selectExpr("value as k", "value as v")
    aggregate(uneven, "k", own_ones, strategy="cascade")
    aggregate(uneven, "k", ready, strategy="cascade")
    aggregate(uneven, "k", own_ones, strategy="cascade", window=("ts", "60 seconds"))
    aggregate(uneven, "k", own_ones, strategy="shuffle")
    with pytest.warns(UserWarning, match="no ledger"):
        aggregate(stream, "k", own_ones, strategy="cascade")
    assert told == [True, False, False, False, False]


@pytest.mark.parametrize("wrong", [[3, 4], [-1, 0], [0]])
def test_homes_that_are_no_workers_are_refused(uneven: DataFrame, wrong: list[int]) -> None:
    """The mark of a home beyond the workers would be taken for a record."""

    class Astray(CascadeAhead):
        def homes(self, keys: Any, state: Any) -> Any:
            found = np.array(wrong, np.int32)
            return found[keys % 2] if found.size > 1 else found

    ours = aggregate(uneven, "k", {"p": product()}, strategy=Astray(), workers=4)
    with pytest.raises(Exception, match="homes must return a worker from 0 to 3 for each key"):
        ours.collect()
