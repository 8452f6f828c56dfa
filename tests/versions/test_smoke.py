"""Every verb once, on whatever Spark is installed, each compared with plain Spark.

Functions that go to Spark are made inside of functions: they then travel by value, and a server of
Connect need not find the modules of the tests.
"""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from skewless import aggregations as aggs
from skewless.spark import (
    KeyPlan,
    aggregate,
    hot_keys,
    join,
    observe_hot_keys,
    plan_join,
    plan_keys,
    process,
    route,
)
from spark.state import chains
from spark.streams import (
    PLAIN,
    assert_same_rows,
    assert_same_types,
    native,
    plain,
    read_stream,
    records,
    spread,
    vector_spread,
    write_file,
)

pytestmark = [pytest.mark.versions, pytest.mark.spark]

N_FILES, WORKERS = 3, 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the files of some micro-batches: one hot key, nulls and texts of all kinds."""
    folder = tmp_path_factory.mktemp("records")
    for number in range(N_FILES):
        write_file(folder, number, records(400, seed=number))
    return folder


@pytest.fixture
def batch(spark: Any, folder: Path) -> DataFrame:
    df: DataFrame = spark.read.parquet(str(folder))
    return df


def reducer() -> Any:
    """Return an object in the shape of Spark's Aggregator."""

    class Spread:
        inputs = "v"
        state = "struct<low: bigint, high: bigint>"
        result = "bigint"

        def zero(self) -> Any:
            return None

        def reduce(self, buffer: Any, value: int | None) -> Any:
            return buffer if value is None else self.merge(buffer, {"low": value, "high": value})

        def merge(self, a: Any, b: Any) -> Any:
            if a is None or b is None:
                return b if a is None else a
            return {"low": min(a["low"], b["low"]), "high": max(a["high"], b["high"])}

        def finish(self, buffer: Any) -> int | None:
            return None if buffer is None else buffer["high"] - buffer["low"]

    return Spread()


def is_connect(spark: Any) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def run_to_a_sink(spark: Any, df: DataFrame, place: Path) -> list[Row]:
    """Run a stream over all that there is, in append mode; return the rows of all runs so far."""
    writer = df.writeStream.format("parquet").option("path", str(place / "out"))
    query = writer.option("checkpointLocation", str(place / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    rows: list[Row] = spark.read.parquet(str(place / "out")).collect()
    return rows


def run_files(spark: Any, df: DataFrame, mode: str, place: Path) -> dict[int, list[Row]]:
    """Run a stream over all that there is; return the rows of the micro-batches of this run.

    They go through files: on Connect, the function that gets them runs on the server.
    """
    out = str(place / "out")

    def write(rows: Any, number: int) -> None:
        rows.write.mode("overwrite").parquet(f"{out}/{number}")

    before = {path.name for path in (place / "out").glob("[0-9]*")}
    writer = df.writeStream.outputMode(mode).foreachBatch(write)
    query = writer.option("checkpointLocation", str(place / "checkpoint"))
    started = query.trigger(availableNow=True).start()
    started.awaitTermination()
    numbers = {path.name for path in (place / "out").glob("[0-9]*")} - before
    return {int(number): spark.read.parquet(f"{out}/{number}").collect() for number in numbers}


def run_for_a_moment(writer: Any) -> None:
    """Start a stream that has no end, and stop it once it has read something."""
    query = writer.start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()


def assert_same_streams(spark: Any, folder: Path, place: Path, make: Any, others: Any) -> None:
    """Compare micro-batch by micro-batch; both are stopped and started again after two files."""
    shown = place / "in"
    found: dict[str, dict[int, list[Row]]] = {"ours": {}, "plain": {}}
    for n_files in (2, N_FILES):
        for number in range(n_files):
            if not (shown / f"{number:03}.parquet").exists():
                write_file(shown, number, records(400, seed=number))
        for name, query in (("ours", make), ("plain", others)):
            results = query(read_stream(spark, shown))
            found[name] |= run_files(spark, results, "update", place / name)
    assert sorted(found["ours"]) == sorted(found["plain"]) == list(range(N_FILES))
    for number, rows in found["ours"].items():
        assert rows
        assert_same_rows(rows, found["plain"][number], ["k"])


@pytest.mark.versions("`route`, batch")
def test_route_keeps_every_record_and_balances(batch: DataFrame) -> None:
    routed = route(batch, "k", workers=WORKERS, seed=1)
    rows = routed.withColumn("partition", F.spark_partition_id()).collect()
    assert all(row["worker"] == row["partition"] for row in rows)
    loads = Counter(row["worker"] for row in rows)
    assert max(loads.values()) < 1.2 * len(rows) / WORKERS  # the hot key alone has nearly as much
    text = [repr(row[:-2]) for row in rows]
    assert Counter(text) == Counter(repr(tuple(row)) for row in batch.collect())


@pytest.mark.versions("`plan_keys`, and `route` by its plan")
def test_a_planned_batch_keeps_every_record_and_balances(batch: DataFrame, tmp_path: Path) -> None:
    plan = plan_keys(batch, "k", WORKERS, seed=1)
    assert plan.made.counted == "exact"
    assert plan.imbalance <= plan.made.tolerance
    plan.save(tmp_path / "plan.json")
    routed = route(batch, "k", plan=KeyPlan.load(tmp_path / "plan.json"))
    rows = routed.withColumn("partition", F.spark_partition_id()).collect()
    assert all(row["worker"] == row["partition"] for row in rows)
    text = [repr(row[:-2]) for row in rows]
    assert Counter(text) == Counter(repr(tuple(row)) for row in batch.collect())
    loads = Counter(row["worker"] for row in rows)
    assert plan.fit(batch).loads == tuple(loads[worker] for worker in range(WORKERS))


@pytest.mark.versions("`route`, batch, decided online")
def test_a_named_strategy_keeps_every_record(batch: DataFrame) -> None:
    rows = route(batch, "k", workers=WORKERS, strategy="cascade-ahead", seed=1).collect()
    text = [repr(row[:-1]) for row in rows]
    assert Counter(text) == Counter(repr(tuple(row)) for row in batch.collect())


@pytest.mark.versions("`join` of tables, `plan_join`")
@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_a_join_of_tables_equals_plain_spark(spark: Any, batch: DataFrame, how: str) -> None:
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")  # as if they were large
    try:
        left, right = batch.select("k", "v"), batch.select("k", F.col("v").alias("w"))
        right = right.where("k <> 'hot' or w % 20 = 0")
        plan = plan_join(left, right, "k", how=how, workers=8)
        assert "hot" in [key.name for key in plan.split_keys]
        rows = join(left, right, "k", how=how, plan=plan).collect()
        plain_rows = left.join(right, "k", how).collect()
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    assert Counter(map(repr, rows)) == Counter(map(repr, plain_rows))


@pytest.mark.versions("`aggregate`, batch, ready aggregations")
def test_ready_aggregations_equal_plain_spark(batch: DataFrame) -> None:
    for strategy in ("auto", "local", "cascade-ahead"):
        ours = aggregate(batch, "k", native(), strategy=strategy, workers=WORKERS)
        others = plain(batch, ["k"], None, names=list(native()))
        assert_same_types(ours, others)
        assert_same_rows(ours.collect(), others.collect(), ["k"])


@pytest.mark.versions("`aggregate`, batch, own aggregators and windows")
def test_own_aggregators_equal_plain_spark(batch: DataFrame) -> None:
    window = ("ts", "60 seconds", "25 seconds")
    own = {"spread": spread(), "vector_spread": vector_spread(), "var": aggs.variance("v")}
    ours = aggregate(batch, "k", own, window=window, strategy="cascade", workers=WORKERS)
    others = plain(batch, ["k"], window, names=list(own))
    assert_same_types(ours, others)
    assert_same_rows(ours.collect(), others.collect(), ["window", "k"])


@pytest.mark.versions("`aggregate`, batch, zero/reduce/merge/finish")
def test_an_object_of_the_shape_of_sparks_aggregator_equals_plain_spark(batch: DataFrame) -> None:
    for strategy in ("auto", "cascade"):
        ours = aggregate(batch, "k", {"spread": reducer()}, strategy=strategy, workers=WORKERS)
        others = plain(batch, ["k"], None, names=["spread"])
        assert_same_rows(ours.collect(), others.collect(), ["k"])


@pytest.mark.versions("`aggregate`, stream, ready aggregations, ledger and restart")
def test_a_stream_of_ready_aggregations_goes_on_after_a_restart(
    spark: Any, folder: Path, tmp_path: Path
) -> None:
    ready = {"n": aggs.count(), "sum_v": aggs.sum("v"), "mean_d": aggs.mean("d")}
    columns = [PLAIN[name]().alias(name) for name in ready]

    def ours(df: DataFrame) -> DataFrame:
        ledger = str(tmp_path / "ledger")
        return aggregate(df, "k", ready, strategy="cascade", workers=WORKERS, ledger=ledger)

    assert_same_streams(spark, folder, tmp_path, ours, lambda df: df.groupBy("k").agg(*columns))
    # On Connect, foreachBatch works outside of micro-batches: nothing is learned.
    assert (tmp_path / "ledger" / "plans").exists() == (not is_connect(spark))


@pytest.mark.versions("`aggregate`, stream, own aggregators, ledger and restart")
def test_a_stream_of_own_aggregators_goes_on_after_a_restart(
    spark: Any, folder: Path, tmp_path: Path
) -> None:
    own = {"spread": spread(), "n": aggs.count()}
    columns = [PLAIN[name]().alias(name) for name in own]

    def ours(df: DataFrame) -> DataFrame:
        ledger = str(tmp_path / "ledger")
        return aggregate(df, "k", own, strategy="cascade", workers=WORKERS, ledger=ledger)

    assert_same_streams(spark, folder, tmp_path, ours, lambda df: df.groupBy("k").agg(*columns))


@pytest.mark.versions("`hot_keys(…).apply`")
def test_the_named_way_of_partitioning_keeps_every_record(batch: DataFrame) -> None:
    found = hot_keys(batch, "k", workers=WORKERS, strategies="hash")
    assert found.apply(batch).count() == batch.count()
    whole = found.apply(batch, whole_keys=True).groupBy("k").agg(F.count_distinct("worker"))
    assert {row[1] for row in whole.collect()} == {1}


@pytest.mark.versions("`hot_keys`, `observe_hot_keys`")
def test_the_hottest_key_is_found(spark: Any, batch: DataFrame) -> None:
    counted = batch.groupBy("k").count().orderBy(F.desc("count")).first()
    found = hot_keys(batch, "k", workers=WORKERS, per_record=1e-5, per_pair=1e-3)
    assert found.keys[0].key == counted["k"] == "hot"
    assert found.keys[0].records == counted["count"]
    assert "hot" in str(found)
    assert observe_hot_keys(batch, "k").count() == batch.count()


@pytest.mark.versions("`process`, stream, ledger and restart")
def test_keyed_state_goes_on_after_a_restart(spark: Any, tmp_path: Path) -> None:
    tables = [chains.records(200, seed) for seed in range(N_FILES)]
    found: list[Row] = []
    for number, table in enumerate(tables):
        write_file(tmp_path / "in", number, table)
        if number == 0:
            continue
        results = process(
            read_stream(spark, tmp_path / "in", chains.DDL),
            "k",
            chains.chain(),
            workers=number + 1,
            max_workers=WORKERS,
            ledger=str(tmp_path / "ledger"),
        )
        found = run_to_a_sink(spark, results, tmp_path)
    wanted = [row for rows in chains.chained(tables) for row in rows]
    assert chains.in_order(map(tuple, found)) == chains.in_order(wanted)


@pytest.mark.versions("continuous processing and real-time mode: refused")
def test_triggers_without_micro_batches_are_refused_in_one_line(spark: Any, tmp_path: Path) -> None:
    rate = spark.readStream.format("rate").load()
    rate = rate.selectExpr("cast(value as string) k", "value v", "timestamp ts")
    frames = [
        route(rate, "k", workers=2, ledger=str(tmp_path / "route")),
        process(rate, "k", chains.chain(), workers=2, ledger=str(tmp_path / "process")),
    ]
    triggers = [{"continuous": "1 second"}, {"realTime": "5 seconds"}]
    for number, (frame, trigger) in enumerate(itertools.product(frames, triggers)):
        writer = frame.writeStream.format("console").outputMode("update")
        writer = writer.option("checkpointLocation", str(tmp_path / f"checkpoint-{number}"))
        try:
            writer = writer.trigger(**trigger)
        except TypeError:  # this version has no such trigger
            assert "realTime" in trigger
            continue
        with pytest.raises(PySparkException) as refused:
            run_for_a_moment(writer)
        said = str(refused.value).splitlines()[0].lower()
        assert "continuous" in said or "real-time" in said or "real_time" in said, said
