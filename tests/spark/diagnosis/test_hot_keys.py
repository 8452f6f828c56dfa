"""`hot_keys`: counts that are right, and predictions of what then happens."""

from __future__ import annotations

import datetime
import time
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from skewless import metrics
from skewless.diagnosis.advice import HotKey
from skewless.spark.diagnosis.hot_keys import HotKeys, hot_keys, observe_hot_keys, observed_hot_keys
from skewless.spark.routing.route import route

FEW = ["pkg", "cascade"]  # each strategy has kernels to compile


@pytest.mark.spark
def test_a_dataframe_is_counted_sampled_and_predicted(spark: Any) -> None:
    rng = np.random.default_rng(0)
    hot = rng.random(10_000) < 0.3
    keys = np.where(hot, "hôt\n", rng.integers(0, 2_000, 10_000).astype(str)).astype(object)
    keys[::20] = None
    df = spark.createDataFrame(pa.table({"k": keys.tolist()})).repartition(3).cache()
    found = hot_keys(df, "k", workers=8, strategies=FEW, top=3, seed=5)
    counts = Counter("null" if key is None else key for key in keys)
    assert found.records == found.sampled == 10_000
    # Which of the keys that share the third place is Spark's choice.
    assert [key.records for key in found.keys] == [n for _, n in counts.most_common(3)]
    assert [key.key for key in found.keys[:2]] == ["hôt\n", "null"]
    assert found.keys[2].records == counts[found.keys[2].key]
    assert found.keys[0].share == counts["hôt\n"] / 10_000
    # All records are in the sample, in order: what `route` then does is what was predicted.
    assert (found.slots, found.partitions) == (2, 3)
    predictions = {one.strategy: one for one in found.predictions}
    for name in ("hash", *FEW):
        sent = route(df, "k", strategy=name, workers=8, seed=5).withColumn(
            "worker", F.spark_partition_id()
        )
        if name == "hash":  # there, what is predicted is plain Spark
            sent = df.repartition(8, "k").withColumn("worker", F.spark_partition_id())
        loads = [row["count"] for row in sent.groupBy("worker").count().collect()]
        loads += [0] * (8 - len(loads))
        assert predictions[name].imbalance == pytest.approx(metrics.imbalance(loads))
        pairs = sent.select("k", "worker").distinct().count()
        assert predictions[name].replication == pytest.approx(pairs / len(counts))
    assert "use strategy='cascade'" in found.advice
    distinct = hot_keys(spark.range(20_000), "id", workers=2, strategies="hash")
    assert distinct.advice.startswith("Plain Spark is the better choice")
    assert found.to_pandas()["strategy"].tolist()[:3] == ["hash", *FEW]
    assert found.to_pandas()["imbalance"][0] == found.predictions[0].imbalance

    part = hot_keys(df, "k", workers=8, strategies="hash", sample=2_000, seed=5)
    # Binomial with standard deviation 40: five of them.
    assert part.sampled == pytest.approx(2_000, abs=200)
    assert part == hot_keys(df, "k", workers=8, strategies="hash", sample=2_000, seed=5)
    assert "sampled" in repr(part)
    assert hot_keys(df, "k", strategies="hash").workers == 2  # Spark's shuffle partitions


@pytest.mark.spark
def test_keys_of_any_type_are_counted(spark: Any) -> None:
    df = spark.sql(
        "SELECT CAST(id AS STRING) s, IF(id < 60, NULL, id % 2) i, X'00FF' b, "
        "DATE'2024-01-02' d, CAST(12.50 AS DECIMAL(38, 2)) m, "
        "IF(id % 2 = 0, double('NaN'), -0.0D) f, named_struct('x', 1, 'y', 'ü, v') st, "
        "array(1, NULL) a FROM range(100)"
    )

    def counted(key: Any) -> list[tuple[str, int]]:
        return [(k.key, k.records) for k in hot_keys(df, key, strategies="hash", workers=2).keys]

    assert counted("i") == [("null", 60), ("0", 20), ("1", 20)]
    assert counted("d") == [(str(datetime.date(2024, 1, 2)), 100)]
    assert counted("m") == [(str(Decimal("12.50")), 100)]
    assert counted("f") == [("0.0", 50), ("nan", 50)]
    assert counted(["i", "d"]) == [
        ("null, 2024-01-02", 60),
        ("0, 2024-01-02", 20),
        ("1, 2024-01-02", 20),
    ]
    assert counted(["m", "i"])[0] == ("12.50, null", 60)
    for name in ("b", "st", "a"):
        assert [count for _, count in counted(name)] == [100]
    assert len(counted("s")) == 20


@pytest.mark.spark
def test_the_work_itself_is_measured(spark: Any) -> None:
    def loads_models(batches: Any) -> Any:
        loaded = set()
        for batch in batches:
            for key in batch.column("k").to_pylist():
                if key not in loaded:
                    loaded.add(key)
                    time.sleep(0.004)
                time.sleep(0.0002)
            yield batch

    keys = np.where(np.arange(2_000) % 2 == 0, 0, np.arange(2_000) % 400)
    df = spark.createDataFrame(pa.table({"k": keys, "v": np.ones(2_000)}))
    found = hot_keys(df, "k", workers=4, strategies="hash", work=loads_models)
    assert found.costs is not None
    assert found.costs.measured
    # Sleeping takes longer than it should, never less; on a busy machine by a lot.
    assert 0.0002 <= found.costs.per_record < 0.002
    assert 0.002 < found.costs.per_pair < 0.04
    assert "Measured on a sample" in str(found)


@pytest.mark.spark
def test_an_empty_dataframe_is_ordinary(spark: Any) -> None:
    df = spark.createDataFrame([], "k string, j int")
    for key in ("k", ["k", "j"]):
        found = hot_keys(df, key, workers=4, strategies=FEW)
        assert (found.records, found.keys, found.sampled) == (0, (), 0)
        assert {(one.imbalance, one.replication) for one in found.predictions} == {(0.0, 1.0)}
        assert "no records" in str(found)


@pytest.mark.spark
def test_bad_arguments_are_named(spark: Any) -> None:
    df = spark.range(3)
    for settings, message in (
        ({"key": "ids"}, "did you mean 'id'"),
        ({"top": 0}, "top must be 1 … 10,000, not 0"),
        ({"top": 10_001}, "top must be 1"),
        ({"sample": 0}, "sample must be at least 1, not 0"),
        ({"workers": 0}, "workers must be 1"),
        ({"strategies": ["pgk"]}, "unknown strategy 'pgk'"),
        ({"slots": 0}, "slots must be 1"),
        ({"per_record": -1}, "per_record must be seconds, finite and at least 0, not -1"),
        ({"per_pair": "5 ms"}, "per_pair must be seconds"),
        ({"work": 3}, "work must be a function as mapInArrow takes it, not 3"),
        ({"work": iter, "per_pair": 1.0}, r"or work \(which measures them\), not both"),
    ):
        with pytest.raises(ValueError, match=message):
            hot_keys(df, **{"key": "id", **settings})


@pytest.mark.spark
def test_a_stream_is_observed_batch_by_batch(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    keys = ["hôt"] * 60 + [None] * 30 + ["b"] * 10
    pq.write_table(pa.table({"k": keys, "j": [1] * 100}), tmp_path / "in" / "0.parquet")
    df = spark.readStream.schema("k string, j bigint").parquet(str(tmp_path / "in"))
    with pytest.raises(ValueError, match=r"df is a stream.*observe_hot_keys\(df, key\)"):
        hot_keys(df, "k")
    observed = observe_hot_keys(observe_hot_keys(df, "k"), ["k", "j"], name="both", top=2)
    assert observed.columns == df.columns
    query = (
        observed.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = observed_hot_keys(query.lastProgress, workers=8)
    assert found == HotKeys(
        100, (HotKey("hôt", 60, 0.6), HotKey("null", 30, 0.3), HotKey("b", 10, 0.1)), workers=8
    )
    both = observed_hot_keys(query.lastProgress, name="both")
    assert [(key.key, key.records) for key in both.keys] == [("hôt, 1", 60), ("null, 1", 30)]
    with pytest.raises(ValueError, match="no observation 'hot'; it has: "):
        observed_hot_keys(query.lastProgress, name="hot")
    with pytest.raises(ValueError, match="no batch yet"):
        observed_hot_keys(None)
