"""A batch is counted first: every record arrives once, and few keys are split."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from skewless.metrics import imbalance
from skewless.spark import KeyPlan, join, plan_keys, route
from skewless.spark.records import Records
from skewless.spark.routing.planned import counting
from skewless.spark.routing.planned.placing import CHECKSUMS, dealing

pytestmark = pytest.mark.spark
PLANNED = "skewless.spark.routing.planned"
N, WORKERS, SEED = 60_000, 6, 5


@pytest.fixture(scope="module")
def skewed(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Records in files: half of them have one key, and there are 2,000 light keys."""
    folder = str(tmp_path_factory.mktemp("records") / "skewed")
    number = F.col("id")
    key = F.when(number % 2 == 0, "hot").otherwise(F.concat(F.lit("k"), number % 2001))
    df = spark.range(0, N, 1, 3).select(number.alias("n"), key.alias("k"), F.lit(1.0).alias("w"))
    df.write.parquet(folder)
    read: DataFrame = spark.read.parquet(folder)
    return read


@pytest.fixture
def no_checksums(spark: Any) -> Iterator[None]:
    before = {name: spark.conf.get(name) for name in CHECKSUMS}
    for name in CHECKSUMS:
        spark.conf.set(name, "false")
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


def workers_of(routed: DataFrame, key: str = "k") -> dict[Any, set[int]]:
    """Return the workers of each key, and check that each record is where its worker is."""
    found: dict[Any, set[int]] = {}
    rows = routed.groupBy(key, "worker", F.spark_partition_id().alias("at")).count().collect()
    for row in rows:
        assert row["at"] == row["worker"]
        found.setdefault(row[key], set()).add(row["worker"])
    return found


def loads_of(routed: DataFrame, n: int = WORKERS) -> list[int]:
    loads = [0] * n
    for worker, count in routed.groupBy("worker").count().collect():
        loads[worker] = count
    return loads


def test_a_batch_is_planned_first(
    skewed: DataFrame, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO, "skewless"):
        routed = route(skewed, "k", workers=WORKERS)
    assert "counted 2,002 keys of k in " in caplog.text
    assert routed.columns == ["n", "k", "w", "worker"]
    assert routed.schema["worker"].dataType.simpleString() == "int"
    routed.explain()
    assert "Python" not in capsys.readouterr().out
    assert sorted(row["n"] for row in routed.collect()) == list(range(N))
    workers = workers_of(routed)
    # Half of all records are three workers' shares: only this key is too heavy for one.
    assert {key for key, held in workers.items() if len(held) > 1} == {"hot"}
    assert len(workers["hot"]) <= WORKERS
    assert imbalance(loads_of(routed)) <= 0.05


def test_a_named_strategy_and_an_expensive_batch_are_decided_online(
    skewed: DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    shuffled = skewed.groupBy("k", "n").agg(F.max("w").alias("w"))
    for routed in (
        route(skewed, "k", workers=WORKERS, strategy="cascade-ahead"),
        route(shuffled, "k", workers=WORKERS),
    ):
        routed.explain()
        assert "Python" in capsys.readouterr().out


def test_the_plan_counts_what_arrives(skewed: DataFrame) -> None:
    plan = plan_keys(skewed, "k", WORKERS, seed=SEED)
    assert plan.made.counted == "exact"
    assert plan.n_keys == 2002
    assert sum(plan.loads) == N
    assert [(key.name, key.load) for key in plan.split] == [("hot", N / 2)]
    assert plan == plan_keys(skewed, "k", WORKERS, seed=SEED)
    routed = route(skewed, "k", plan=plan)
    dealt = max(np.sqrt(N / WORKERS) * 4, 1)  # records of the split key are dealt at random
    assert np.abs(np.array(loads_of(routed)) - plan.loads).max() <= dealt
    assert plan.fit(skewed).loads == tuple(loads_of(routed))
    assert "hot" in str(plan)


def test_spark_without_a_top_k_counts_the_same(
    skewed: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_keys(skewed, "k", WORKERS, seed=SEED)
    monkeypatch.setattr(counting, "_WITHOUT_TOP_K", "")
    assert plan_keys(skewed, "k", WORKERS, seed=SEED) == plan


def test_a_saved_plan_routes_other_records_of_these_keys(skewed: DataFrame, tmp_path: Path) -> None:
    plan = plan_keys(skewed, "k", WORKERS, seed=SEED)
    plan.save(tmp_path / "plan.json")
    loaded = KeyPlan.load(tmp_path / "plan.json")
    assert loaded == plan
    assert isinstance(loaded, KeyPlan)
    some = skewed.where("n % 3 = 0 or k = 'k7'").withColumn("k", F.coalesce("k", F.lit("new")))
    assert workers_of(route(some, "k", plan=loaded)) == workers_of(route(some, "k", plan=plan))
    fit = loaded.fit(skewed.where("k != 'hot'"))
    assert sum(fit.loads) == N / 2
    assert fit.imbalance > fit.planned
    assert "imbalance" in str(fit)


def test_large_partitions_of_an_expensive_input_are_sampled(
    skewed: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here from 4,096 records on."""
    monkeypatch.setattr(f"{PLANNED}.plan_keys._thin", lambda *_: (12, 4, SEED))
    shuffled = skewed.groupBy("k", "n").agg(F.max("w").alias("w"))
    for df in (shuffled, shuffled.coalesce(1)):
        plan = plan_keys(df, "k", WORKERS, seed=SEED)
        assert plan.made.counted == "sample"
        assert "a sample" in str(plan)
        assert sum(plan.loads) == pytest.approx(N, rel=0.1)
        assert [key.name for key in plan.split] == ["hot"]
        assert plan.fit(skewed).imbalance < 0.2  # 0.05, and 5 σ of a sample of 1,300 a worker


@pytest.mark.parametrize(("n", "seed"), [(WORKERS, 1), (12, 3)])
def test_route_counts_a_sample_of_large_partitions_and_keeps_the_tolerance(
    spark: Any, caplog: pytest.LogCaptureFixture, n: int, seed: int
) -> None:
    """A plan that is shown counts all records."""
    n_rows = 50_000 * n
    is_hot = F.col("id") % 2 == 0
    light = F.pmod(F.xxhash64("id"), F.lit(5_000))
    large = spark.range(0, n_rows, 1, 3).select(F.when(is_hot, -1).otherwise(light).alias("k"))
    with caplog.at_level(logging.INFO, "skewless"):
        routed = route(large, "k", workers=n, seed=seed)
    assert "(sample)" in caplog.text
    assert [key for key, workers in workers_of(routed).items() if len(workers) > 1] == [-1]
    assert sum(loads_of(routed, n)) == n_rows
    assert imbalance(loads_of(routed, n)) <= 0.05
    assert plan_keys(large, "k", n, seed=seed).made.counted == "exact"


def test_all_records_are_counted_if_a_sample_tells_too_little(
    spark: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The last of many partitions has all of them, and it is thinned the most."""
    df = spark.range(0, 40 * 200_000, 1, 40).where("id >= 39 * 200000").selectExpr("id % 999 AS k")
    with caplog.at_level(logging.INFO, "skewless"):
        routed = route(df, "k", workers=16, seed=SEED)
    assert "(exact)" in caplog.text
    assert imbalance(loads_of(routed, 16)) <= 0.05


def test_keys_that_have_one_hash_are_one_key_of_a_plan(spark: Any, tmp_path: Path) -> None:
    """Spark's hash skips nulls, so it is the same for these, whatever the seed is."""
    columns = [
        f"CASE id % 5 WHEN {place} THEN 'x' WHEN {(place + 1) % 3} THEN NULL "
        f"WHEN {(place + 2) % 3} THEN NULL ELSE CAST(id AS STRING) END AS k{place}"
        for place in range(3)
    ]
    df = spark.range(20_000).selectExpr("id", *columns)
    names = ["k0", "k1", "k2"]
    plan = plan_keys(df, names, 4, seed=SEED)
    plan.save(tmp_path / "plan")
    loaded = KeyPlan.load(tmp_path / "plan")
    assert loaded == plan
    assert len(plan.split) == 1
    assert plan.split[0].load == 12_000
    routed = route(df, names, plan=loaded)
    assert imbalance(loads_of(routed, 4)) <= 0.06
    assert routed.count() == 20_000


def test_what_a_plan_does_is_logged(
    skewed: DataFrame, caplog: pytest.LogCaptureFixture, no_checksums: None
) -> None:
    plan = plan_keys(skewed, "k", WORKERS, seed=SEED)
    shuffled = skewed.groupBy("k", "n").agg(F.max("w").alias("w"))
    with caplog.at_level(logging.INFO, "skewless"):
        route(shuffled, "k", workers=2)
        plan_keys(skewed, "k", WORKERS, whole_keys=True, seed=SEED)
    assert "decides online, in Python: df is expensive to count" in caplog.text
    assert "keys stay whole, so a worker gets 3.0 times its fair share" in caplog.text
    # It moves nothing, so it takes what `route` refuses without checksums.
    assert sum(plan.fit(skewed.limit(500)).loads) == 500


def test_a_session_in_which_no_column_refers_to_its_neighbour(
    spark: Any, skewed: DataFrame
) -> None:
    setting = "spark.sql.lateralColumnAlias.enableImplicitResolution"
    shuffled = skewed.groupBy("k", "n").agg(F.max("w").alias("w"))
    before = spark.conf.get(setting)
    spark.conf.set(setting, "false")
    try:
        plan = plan_keys(shuffled, "k", WORKERS, seed=SEED)
    finally:
        spark.conf.set(setting, before)
    assert [key.name for key in plan.split] == ["hot"]


def test_files_cached_data_weights_and_costs_of_keys_are_counted_exactly(
    skewed: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{PLANNED}.plan_keys._thin", lambda *_: (6, 4, SEED))
    shuffled = skewed.groupBy("k", "n").agg(F.max("w").alias("w"))
    cached = shuffled.limit(3_000).cache()
    for df, options in (
        (skewed, {}),
        (cached, {}),
        (shuffled, {"weight": "w"}),
        (shuffled, {"per_key": 2.0}),
    ):
        plan = plan_keys(df, "k", WORKERS, seed=SEED, **options)
        assert plan.made.counted == "exact", options
    cached.unpersist()


def test_capacities_weights_and_untrusted_keys(skewed: DataFrame) -> None:
    slow = route(skewed, "k", workers=4, capacities=[2, 1, 1, 0], seed=SEED)
    loads = loads_of(slow, 4)
    assert loads[3] == 0
    assert imbalance(loads, [2, 1, 1, 0]) <= 0.06
    heavy = skewed.withColumn("w", F.when(F.col("k") == "hot", 3.0).otherwise(1.0))
    plan = plan_keys(heavy, "k", WORKERS, weight="w", seed=SEED)
    assert [(key.name, key.load) for key in plan.split] == [("hot", 1.5 * N)]
    assert plan.made.weight == "w"
    assert plan.fit(heavy, weight="w").imbalance <= 0.05
    # A key costs as much as ten records, so that 2,002 keys weigh as much as 20,020 records.
    assert sum(plan_keys(skewed, "k", WORKERS, per_key=10.0).loads) == N + 20_020
    hashed = plan_keys(skewed, "k", WORKERS, untrusted_keys=True, seed=SEED)
    assert {key.name for key in hashed.split} == {"hot"}
    assert {key.hashed for key in hashed.split} != {key.hashed for key in plan.split}
    assert imbalance(loads_of(route(skewed, "k", plan=hashed))) <= 0.05
    whole = plan_keys(skewed, "k", WORKERS, whole_keys=True, seed=SEED)
    assert not whole.split


def test_identical_rows_and_an_order_that_may_change(skewed: DataFrame, no_checksums: None) -> None:
    """Scans deal by position, also records that are all alike; after a shuffle content decides."""
    alike = skewed.select("k")
    assert imbalance(loads_of(route(alike, "k", workers=WORKERS))) <= 0.05
    plan = plan_keys(skewed, "k", WORKERS, seed=SEED)
    shuffled = skewed.withColumn("m", F.create_map("n", "k")).repartition(4, "n")
    routed = route(shuffled, "k", plan=plan)
    assert sorted(row["n"] for row in routed.collect()) == list(range(N))
    assert imbalance(loads_of(routed)) <= 0.05
    with_rank = {row["n"]: row["worker"] for row in routed.collect()}
    other = route(shuffled.repartition(3, "w").coalesce(2), "k", plan=plan)
    assert {row["n"]: row["worker"] for row in other.collect()} == with_rank
    # A sum of fractions depends on the order of the records, also inside a struct.
    summed = skewed.groupBy("k").agg(F.struct(F.sum("w").alias("s")).alias("s"))
    decides = str(dealing(Records.of(summed).by("k"), SEED))
    assert "k" in decides
    assert "s," not in decides
    maps = shuffled.select(F.create_map("k", "n").alias("m"))
    by = F.element_at(F.map_keys("m"), 1).alias("k")
    keyed = plan_keys(skewed.select(F.create_map("k", "n").alias("m")), by, WORKERS, seed=SEED)
    assert len(keyed.split) == 1
    with pytest.raises(ValueError, match="no column that can be hashed"):
        route(maps, by, plan=keyed)


def keys() -> dict[str, Any]:
    """Return keys of many types; a function, because columns need a session."""
    n = F.col("n")
    return {
        "null and text": F.when(n % 5 > 0, "a"),
        "double": F.when(n % 3 == 0, F.lit(float("nan"))).otherwise(F.lit(-0.0)),
        "decimal": (n % 3).cast("decimal(38, 10)"),
        "binary": F.encode((n % 3).cast("string"), "utf-8"),
        "struct": F.struct((n % 3).alias("a"), F.struct(F.lit(None).alias("b")).alias("c")),
        "array": F.array(n % 3),
        "timestamp": F.timestamp_seconds(n % 3 + 253402300799),
        "date": F.date_add(F.lit("9999-12-30").cast("date"), (n % 3).cast("int")),
    }


def test_keys_of_every_type_are_planned(skewed: DataFrame) -> None:
    for name, column in keys().items():
        df = skewed.limit(3000).cache()
        try:
            keyed = df.select(column.alias("key"), F.create_map("n", "k").alias("map"), "n")
            plan = plan_keys(keyed, "key", 2, seed=SEED)
            assert plan.made.counted == "exact", name
            # Python has no year 10000, so only the counts are collected.
            counted = keyed.groupBy("key").count().select("count").collect()
            counts = [row["count"] for row in counted]
            assert plan.n_keys == len(counts), name
            assert {key.load for key in plan.table} <= set(counts), name
            rows = route(keyed, "key", plan=plan).select("n").collect()
            assert len({row["n"] for row in rows}) == 3000, name
        finally:
            df.unpersist()


def test_collated_keys_are_not_planned(skewed: DataFrame, caplog: pytest.LogCaptureFixture) -> None:
    text = F.when(F.col("n") % 3 == 0, "A").otherwise("a")
    keyed = skewed.select(F.collate(text, "UTF8_LCASE").alias("key"), "n")
    # `xxhash64` gives A and a two hashes, and Spark has no public hash that respects a collation.
    with pytest.raises(ValueError, match="key string collate UTF8_LCASE: Spark's hash"):
        plan_keys(keyed, "key", 2)
    with caplog.at_level("INFO", logger="skewless"):
        rows = route(keyed, "key", workers=2).select("n").collect()
    assert "decides online: Spark's hash ignores the collation" in caplog.text
    assert sorted(rows) == sorted(skewed.select("n").collect())


def test_several_columns_and_zeros_of_both_signs(spark: Any, skewed: DataFrame) -> None:
    zero = F.when(F.col("n") % 4 == 0, 0.0).when(F.col("n") % 4 == 2, -0.0).otherwise(1.5)
    both = skewed.select(zero.alias("z"), F.when(F.col("n") < 0, "x").alias("nothing"), "n")
    plan = plan_keys(both, ["z", "nothing"], 3, seed=SEED)
    assert plan.n_keys == 2
    assert {key.name for key in plan.split} == {"0.0, null", "1.5, null"}
    routed = route(both, ["z", "nothing"], plan=plan)
    assert imbalance(loads_of(routed, 3)) <= 0.05


def test_nothing_one_worker_and_a_dotted_column(skewed: DataFrame) -> None:
    assert route(skewed.where("n < 0"), "k", workers=5).collect() == []
    empty = plan_keys(skewed.where("n < 0"), "k", 5)
    assert (empty.n_keys, empty.loads, empty.table) == (0, (0.0,) * 5, ())
    assert {row["w.o"] for row in route(skewed, "k", workers=1, column="w.o").collect()} == {0}


def test_a_plan_that_cannot_be_followed_is_refused(spark: Any, skewed: DataFrame) -> None:
    plan = plan_keys(skewed, "k", WORKERS, seed=SEED)
    with pytest.raises(ValueError, match="plan is for the key k string, not n bigint"):
        route(skewed, "n", plan=plan)
    with pytest.raises(ValueError, match="plan: leave out workers, seed"):
        route(skewed, "k", plan=plan, workers=3, seed=1)
    with pytest.raises(ValueError, match="plan: leave out strategy"):
        route(skewed, "k", plan=plan, strategy="hash")
    with pytest.raises(ValueError, match="plan must be a KeyPlan of skewless"):
        route(skewed, "k", plan="plan.json")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="weight: 'w' has a sum that is not finite"):
        plan_keys(skewed.withColumn("w", F.lit(1e308)), "k", 4, weight="w")
    stream = spark.readStream.format("rate").load()
    with pytest.raises(ValueError, match="decided online"):
        route(stream, "value", plan=plan)
    with pytest.raises(ValueError, match="df is a stream"):
        plan_keys(stream, "value", 3)
    for bad in (-0.1, float("nan"), "0.1", True):
        with pytest.raises(ValueError, match="tolerance must be a number of at least 0"):
            plan_keys(skewed, "k", 3, tolerance=bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="whole_keys must be True or False"):
        plan_keys(skewed, "k", 3, whole_keys="yes")  # type: ignore[arg-type]


def test_names_of_columns_that_are_dropped_again_are_refused(spark: Any) -> None:
    df = spark.range(9).selectExpr("id AS k", "id AS __Skewless_hash")
    with pytest.raises(ValueError, match="df: column '__Skewless_hash' is named like the columns"):
        route(df, "k", workers=2)
    with pytest.raises(ValueError, match="left: column '__Skewless_hash' is named like"):
        join(df, df.select("k"), "k", workers=2)
    with pytest.raises(ValueError, match="column: '__skewless_hash' is the name of a column"):
        route(df.select("k"), "k", workers=2, column="__skewless_hash")
