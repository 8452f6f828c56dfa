"""`hot_keys`: counts that are right, predictions that are the simulator's, advice that fits."""

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

from skewless import metrics, registry
from skewless.simulator import simulate
from skewless.spark.balance.balance import HotKey
from skewless.spark.diagnosis.advice import HotKeys
from skewless.spark.diagnosis.costs import Costs, makespan
from skewless.spark.diagnosis.hot_keys import hot_keys, observe_hot_keys, observed_hot_keys
from skewless.spark.diagnosis.measuring import solve
from skewless.spark.diagnosis.predicting import Job, Prediction, chosen_strategies, predict
from skewless.spark.diagnosis.sampled_keys import SampledKeys
from skewless.spark.routing.route import route
from skewless.workloads import Zipf

FEW = ["pkg", "cascade"]  # each strategy has kernels to compile


def zipf(z: float, n_records: int = 20_000, n_keys: int = 5_000) -> Any:
    return next(Zipf(z=z, n_keys=n_keys, n_records=n_records).chunks(seed=1, chunk_size=n_records))


# Predictions and advice, without Spark


def job(keys: Any, n_workers: int = 8, n_slots: int = 8, **more: Any) -> Job:
    return Job(SampledKeys(keys), n_workers, n_slots, keys.size, **more)


def by_name(predictions: tuple[Prediction, ...]) -> dict[str, Prediction]:
    return {one.strategy: one for one in predictions}


def test_predictions_are_what_routing_and_the_simulator_say() -> None:
    keys = zipf(1.2)
    cut = Job(SampledKeys(keys, (7_000, 0, 13_000)), 8, 8, keys.size, seed=3, batch_size=999)
    found = by_name(predict(cut, chosen_strategies(["pkg", "cascade", "mixed"])))
    for name in ("hash", "pkg", "cascade", "mixed"):
        strategy, one = registry.make(name), found[name]
        workers = np.empty(keys.size, np.int32)
        for source, part in ((0, slice(7_000)), (2, slice(7_000, None))):
            strategy.route(keys[part], strategy.start(8, 3, source=source), workers[part])
        assert one.imbalance == metrics.imbalance(np.bincount(workers, minlength=8))
        pairs = len(set(zip(keys.tolist(), workers.tolist(), strict=True)))
        assert one.replication == pytest.approx(pairs / len(set(keys.tolist())))
        run = simulate(strategy, cut.sample, n_workers=8, n_sources=4, seed=3, window=1_000)
        assert one.makespan == run.summary()["makespan_ratio"] >= 1.0
        assert one.seconds is None
    # Two choices are better than one, and moving keys is better than leaving them.
    assert found["pkg"].makespan < found["hash"].makespan  # type: ignore[operator]
    assert found["mixed"].makespan < found["hash"].makespan  # type: ignore[operator]
    assert 1.0 == found["hash"].replication < found["pkg"].replication <= 2.0


def test_what_needs_no_strategy_is_predicted_too() -> None:
    keys = zipf(1.2)
    found = by_name(predict(job(keys), chosen_strategies("hash")))
    assert [*found] == ["hash", "round-robin", "salt-2", "salt-4", "salt-8", "local"]
    assert {one.family for one in found.values()} == {"plain Spark"}
    assert found["round-robin"].imbalance == 0.0
    assert found["hash"].imbalance > found["salt-2"].imbalance > found["salt-8"].imbalance
    assert 1.0 < found["salt-2"].replication < found["salt-8"].replication
    assert found["salt-8"].replication < found["round-robin"].replication
    # One partition on eight slots: seven are idle.
    assert (found["local"].imbalance, found["local"].replication) == (7.0, 1.0)
    many = by_name(predict(job(keys, n_workers=64), chosen_strategies("hash")))
    assert "salt-32" in many
    assert (
        by_name(predict(job(keys, n_workers=1), chosen_strategies("hash")))["hash"].imbalance == 0
    )


def test_sparks_own_hash_takes_the_place_of_ours() -> None:
    keys = zipf(1.2)
    plain = (np.arange(keys.size) % 2).astype(np.int32)
    assert predict(job(keys), chosen_strategies("hash"), plain)[0].imbalance == 3.0


@pytest.mark.parametrize(
    ("per_record", "per_pair", "fastest"),
    [
        (
            1e-4,
            0.0,
            {"round-robin", "salt-8"},
        ),  # records alone: any spreading will do
        (1e-4, 1e-1, {"hash"}),  # keys alone do: no second copy of any key
        (1e-3, 1e-2, {"cascade"}),  # both do
        # Both do, for less than a second: routing begins too late. How many salts is chance.
        (1e-4, 1e-3, {"salt-2", "salt-4", "salt-8"}),
        (1e-9, 0.0, {"local"}),  # too little work to move a record for
    ],
)
def test_the_fastest_depends_on_the_costs(per_record: float, per_pair: float, fastest: Any) -> None:
    keys = zipf(1.2)
    costs = Costs(per_record, per_pair)
    predictions = predict(job(keys, costs=costs), chosen_strategies(FEW))
    found = HotKeys(keys.size, (), 8, keys.size, predictions, slots=8, partitions=1, costs=costs)
    assert found.fastest is not None
    assert found.fastest.strategy in fastest
    assert found.fastest.seconds == min(one.seconds for one in predictions)  # type: ignore[type-var]
    assert "the fastest" in found.advice
    assert len(found.assumptions) == 3


def test_time_is_that_of_tasks_on_slots() -> None:
    assert makespan([3.0, 1.0, 1.0, 1.0, 1.0], n_slots=2) == 4.0
    assert makespan([], n_slots=3) == 0.0
    keys = np.zeros(100, np.uint64)
    by_hash = predict(job(keys, n_slots=4, costs=Costs(0.01, 5.0)), chosen_strategies("hash"))
    found = by_name(by_hash)
    # The shuffle of so few records takes less than a millisecond.
    assert found["hash"].seconds == pytest.approx(6.0, abs=1e-3)
    assert found["round-robin"].seconds == pytest.approx(2 * (13 * 0.01 + 5.0), abs=0.02)
    # A tenth of the records: each stands for ten.
    part = Job(SampledKeys(keys), 8, 4, 1_000, Costs(0.01, 5.0))
    assert by_name(predict(part, chosen_strategies("hash")))["hash"].seconds == pytest.approx(
        15.0, abs=1e-3
    )


def test_two_measurements_give_the_two_costs() -> None:
    for per_record, per_pair in ((1e-4, 1e-2), (1e-3, 0.0), (0.0, 1e-2)):
        many = (100, 100 * (per_record + per_pair))
        few = (1_000, 1_000 * per_record + 5 * per_pair)
        found = solve(many, few, n_few_keys=5)
        assert found.per_record == pytest.approx(per_record, rel=0.01, abs=1e-12)
        assert found.per_pair == pytest.approx(per_pair, rel=0.01, abs=1e-12)
    # Without two kinds of measurement there is one cost.
    assert solve((0, 0.0), (100, 1.0), n_few_keys=1) == Costs(0.01, 0.0, measured=True)
    assert solve((0, 0.0), (0, 0.0), n_few_keys=0) == Costs(0.0, 0.0, measured=True)


def test_hash_is_always_there_and_once() -> None:
    assert [one.name for one in chosen_strategies("pkg")] == ["hash", "pkg"]
    assert [one.name for one in chosen_strategies(["pkg", "hash"])] == ["hash", "pkg"]
    assert [one.name for one in chosen_strategies([registry.make("pkg")])] == ["hash", "pkg"]
    assert {one.name for one in chosen_strategies("all")} == set(registry.names())
    assert "cascade" in {one.name for one in chosen_strategies(None)}
    with pytest.raises(ValueError, match="did you mean 'cascade'"):
        chosen_strategies(["cascad"])


def predicted(**rows: tuple[float, float, float]) -> HotKeys:
    """Return hot keys of a million records with these imbalances, replications and makespans."""
    return HotKeys(
        1_000_000,
        (HotKey("a", 1_000, 0.001),),
        workers=8,
        sampled=1_000_000,
        predictions=tuple(Prediction(name, "splitting", *row) for name, row in rows.items()),
    )


def test_where_hashing_balances_plain_spark_is_advised() -> None:
    assert predicted(hash=(0.05, 1, 1.05), pkg=(0, 1.5, 1)).advice.startswith("Plain Spark is")


def test_of_strategies_that_are_alike_the_one_with_fewer_replicas_is_advised() -> None:
    skewed = predicted(
        hash=(2.0, 1, 3), shuffle=(0.0, 7.9, 1.0), cascade=(0.02, 1.1, 1.03), pkg=(0.9, 1.0, 1.9)
    )
    assert skewed.advice.startswith("The job is skewed: hashing gives the busiest worker")
    assert "use strategy='cascade'" in skewed.advice
    assert "repartition(8) spreads them" in skewed.advice
    assert "3.00 times its fair share" in skewed.advice
    assert "sum, count, min, max" in skewed.advice


def test_neither_the_limit_nor_what_does_not_help_is_advised() -> None:
    for rows in ({"ideal": (0.0, 1.0, 1.0)}, {"pkg": (2.0, 1.5, 3.0)}, {}):
        advice = predicted(hash=(2.0, 1, 3), **rows).advice
        assert "No strategy that was tried does better" in advice


def test_keys_that_move_between_micro_batches_are_not_advised() -> None:
    hashing = Prediction("hash", "moving", 2.0, 1.0, 3.0)
    moving = Prediction("mixed", "moving", 0.0, 1.0, 1.0)
    splitting = Prediction("cascade", "splitting", 0.01, 1.1, 1.0)
    keys = (HotKey("a", 1, 0.1),)
    both = HotKeys(10, keys, 8, 10, (hashing, moving, splitting))
    assert "use strategy='cascade'" in both.advice
    alone = HotKeys(10, keys, 8, 10, (hashing, moving))
    assert "No strategy that was tried does better" in alone.advice


def test_chance_in_a_small_sample_is_not_taken_for_skew() -> None:
    # A million keys of one record each over 64 workers: hashing is as good as it gets, and yet
    # the busiest of 64 workers has chance records more in a sample of 6,400.
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 1 << 63, 6_400, dtype=np.uint64)
    predictions = predict(job(keys, n_workers=64), chosen_strategies("hash"))
    assert predictions[0].imbalance > 0.1
    found = HotKeys(1_000_000, (HotKey("a", 1, 1e-6),), 64, keys.size, predictions)
    assert found.advice.startswith("Plain Spark is the better choice")
    # If that is all there is, the imbalance is no matter of the sample.
    whole = HotKeys(keys.size, (HotKey("a", 1, 1 / keys.size),), 64, keys.size, predictions)
    assert whole.advice.startswith("The job is skewed")


def test_shares_alone_advise_too() -> None:
    key = (HotKey("a\nb", 300, 0.3),)
    assert HotKeys(1_000, key).advice == (
        "'a\\\\nb' has 30.0 % of the records: more than one worker's fair share from 4 workers on."
    )
    assert "2.40 times a worker's fair share" in HotKeys(1_000, key, workers=8).advice
    light = (HotKey("a", 1, 0.001),)
    assert "light keys can still be uneven" in HotKeys(1_000, light, workers=8).advice.lower()
    assert "No key stands out" in HotKeys(1_000, (), workers=8).advice
    assert "no records" in HotKeys(0, (), workers=8).advice
    assert "one worker" in HotKeys(1_000, key, workers=1).advice


def test_it_prints_as_plain_text() -> None:
    text = str(predicted(hash=(2.0, 1, 3), cascade=(0.02, 1.1, 1.03)))
    assert text.splitlines()[:-1] == [
        "1,000,000 records, 8 workers",
        "",
        "key  records  share  × fair share",
        "a      1,000  0.1 %          0.01",
        "",
        "Predicted from 1,000,000 records:",
        "strategy     family  imbalance  replicas per key  seconds  stream: × ideal time",
        "hash      splitting    200.0 %             1.000        –                  3.00",
        "cascade   splitting      2.0 %             1.100        –                  1.03",
        "",
        "Assumed: – tasks run at the same time, and the records come from – partitions in their "
        "present order.",
        "",
    ]


# On Spark


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
    predictions = by_name(found.predictions)
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
