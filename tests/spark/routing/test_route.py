"""`route`: every record once, in the partition of its worker, as the simulator would route it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from lanes import slow_except
from skewless import registry
from skewless.arrays import Keys, Workers
from skewless.keys import hash_keys
from skewless.simulator.syncing import merge_and_fork
from skewless.spark.balance.balance import read_balance
from skewless.spark.ledger import Ledger, LedgerMismatch
from skewless.spark.ledger.names import plan_name
from skewless.spark.records import Records
from skewless.spark.routing.arguments import routing_arguments
from skewless.spark.routing.route import make_router, route
from skewless.state import copy_state
from skewless.strategies.cascade import Cascade, CascadeAhead
from skewless.strategies.partial_key import PartialKey
from skewless.strategy import Merges, Rebalances, Report
from spark.ledger.entries import read_report, read_reports
from spark.streams import FULL, read_stream, run, write_file

pytestmark = pytest.mark.spark
N_RECORDS, N_PARTITIONS, N_WORKERS, SEED = 2000, 4, 3, 5
#: One for each way in which sources share what they know, or all.
SHARING = (
    tuple(registry.names()) if FULL else ("cascade", "cascade-ahead", "dalton", "pkg", "mixed")
)


def key_of(number: int) -> str | None:
    if number % 3 == 0:
        return "hot"
    return None if number % 41 == 0 else f"ключ {number * number % 97}"


@pytest.fixture(scope="module")
def numbered(spark: Any) -> DataFrame:
    """Records with their number; those of a partition follow each other."""
    number = F.col("id")
    key = (
        F.when(number % 3 == 0, "hot")
        .when(number % 41 == 0, None)
        .otherwise(F.concat(F.lit("ключ "), (number * number % 97).cast("string")))
    )
    df: DataFrame = spark.range(0, N_RECORDS, 1, N_PARTITIONS).select(
        number.alias("number"), key.alias("k"), (number % 7 + 1).alias("cost")
    )
    return df


@pytest.fixture
def settings(spark: Any) -> Iterator[Any]:
    """Return a function that sets settings of Spark for one test; none of them is set before."""
    changed: list[str] = []

    def change(name: str, value: str) -> None:
        changed.append(name)
        spark.conf.set(name, value)

    yield change
    for name in changed:
        spark.conf.unset(name)


def routed_by(strategy: Any, keys: Keys, state: Any, costs: Any = None) -> Workers:
    out = np.full(keys.size, -1, np.int32)
    if costs is None:
        strategy.route(keys, state, out)
    else:
        strategy.route_weighted(keys, costs, state, out)
    return out


def in_python(strategy: Any, *, weighted: bool = False) -> list[int]:
    """Return the worker of every record, partition by partition."""
    found: list[int] = []
    for partition, numbers in enumerate(np.split(np.arange(N_RECORDS), N_PARTITIONS)):
        keys = hash_keys(pa.array([key_of(int(number)) for number in numbers], pa.string()))
        state = strategy.start(N_WORKERS, SEED, source=partition)
        costs = (numbers % 7 + 1).astype(np.float64) if weighted else None
        found += routed_by(strategy, keys, state, costs).tolist()
    return found


def test_every_record_arrives_once_in_the_partition_of_its_worker(numbered: DataFrame) -> None:
    routed = route(numbered, "k", strategy=Cascade(), workers=N_WORKERS, seed=SEED, column="to.go")
    assert routed.columns == ["number", "k", "cost", "to.go"]
    assert routed.schema["to.go"].dataType.simpleString() == "int"
    rows = routed.withColumn("at", F.spark_partition_id()).collect()
    assert sorted(row["number"] for row in rows) == list(range(N_RECORDS))
    assert all(row["k"] == key_of(row["number"]) for row in rows)
    assert all(row["at"] == row["to.go"] for row in rows)
    assert {row["at"] for row in rows} == set(range(N_WORKERS))


def test_spark_routes_as_the_simulator_does(numbered: DataFrame) -> None:
    """Many strategies in one job: as many stages of sources as there are strategies."""
    few = [
        "hash",
        "pkg",
        "fish",
        "dalton",
        "pstream",
        "pd-stream",
        "cascade",
        "cascade-ahead",
        "mixed",
    ]
    names = registry.names() if FULL else few  # each loads its kernels in every Python worker
    routed = [
        route(numbered, "k", strategy=name, workers=N_WORKERS, seed=SEED).select(
            F.lit(name).alias("strategy"), "number", "worker"
        )
        for name in names
    ]
    given: dict[str, Any] = {"strategy": "cascade-ahead", "workers": N_WORKERS, "seed": SEED}
    heavy = route(numbered, "k", **given, weight="cost")
    routed.append(heavy.select(F.lit("weighted").alias("strategy"), "number", "worker"))
    rows = functools.reduce(DataFrame.unionAll, routed).collect()
    for name in names:
        found = {row["number"]: row["worker"] for row in rows if row["strategy"] == name}
        assert [found[n] for n in range(N_RECORDS)] == in_python(registry.make(name)), name
    found = {row["number"]: row["worker"] for row in rows if row["strategy"] == "weighted"}
    wanted = in_python(CascadeAhead(), weighted=True)
    assert [found[n] for n in range(N_RECORDS)] == wanted
    assert wanted != in_python(CascadeAhead())


def test_no_records_and_records_without_keys_are_routed(numbered: DataFrame) -> None:
    nobody = numbered.withColumn("k", F.lit(None).cast("string"))
    rows = route(nobody.limit(30), "k", strategy="hash", workers=5).collect()
    assert len(rows) == 30
    assert len({row["worker"] for row in rows}) == 1
    assert route(numbered.limit(0), ["k", "cost"], workers=5).collect() == []


def test_settings_stand_in_for_arguments_and_arguments_win(
    spark: Any, numbered: DataFrame, settings: Any, tmp_path: Path
) -> None:
    def router(df: DataFrame, **given: Any) -> Any:
        return make_router(df, Records.of(df).by("k").key, "pkg", routing_arguments(df, **given))

    assert router(numbered).plans.n_workers == 2
    assert router(numbered).plans.seed != router(numbered).plans.seed  # drawn
    settings("spark.skewless.workers", "1e3")
    settings("spark.skewless.seed", "9")
    settings("spark.skewless.ledger", str(tmp_path / "all"))
    assert (router(numbered).plans.n_workers, router(numbered).plans.seed) == (1000, 9)
    given = router(numbered, workers=4, seed=0).plans
    assert (given.n_workers, given.seed) == (4, 0)
    assert route(numbered, "k", workers=4).rdd.getNumPartitions() == 4
    assert router(numbered).query.ledger is None  # a batch has no next one to share with
    stream = read_stream(spark, tmp_path, "k string")
    assert router(stream).query.ledger == Ledger(str(tmp_path / "all"))
    assert router(stream).query.per_query
    given = router(stream, ledger=str(tmp_path / "one"))
    assert given.query.ledger.folder == str(tmp_path / "one")
    assert not given.query.per_query


@pytest.mark.parametrize("name", ["seed", "workers"])
def test_a_bad_setting_is_named_as_a_setting(numbered: DataFrame, settings: Any, name: str) -> None:
    settings(f"spark.skewless.{name}", "abc")
    with pytest.raises(ValueError, match=f"^spark.skewless.{name} must be a whole number"):
        route(numbered, "k")


# Streams

KEYS_DDL = "k bigint, number bigint"


def write_batch(folder: Path, batch: int) -> None:
    """Write two files of records, of different lengths so that their order is always the same."""
    for half in range(2):
        rng = np.random.default_rng([batch, half])
        n_records = 900 - 300 * half
        # Skewed, but no key alone is above a worker's share: `mixed` would then move nothing.
        keys = rng.integers(0, 60, n_records) ** 2 // 60 + 20 * (batch // 2)
        table = pa.table({"k": keys, "number": np.arange(n_records)})
        write_file(folder, 2 * batch + half, table)


def routed_stream(spark: Any, folder: Path, **options: Any) -> DataFrame:
    """Return the routed stream, with the source of each record and its number there."""
    df = read_stream(spark, folder, KEYS_DDL, files=2)
    df = df.withColumn("source", F.spark_partition_id())
    return route(df, "k", workers=N_WORKERS, seed=SEED, **options)


def by_source(rows: list[Row]) -> dict[int, tuple[Keys, list[int]]]:
    """Return the keys and workers of each source in the order in which it read them."""
    found = {}
    for source in sorted({row["source"] for row in rows}):
        own = sorted((row for row in rows if row["source"] == source), key=lambda r: r["number"])
        keys = hash_keys(pa.array([row["k"] for row in own], pa.int64()))
        found[source] = keys, [row["worker"] for row in own]
    return found


@pytest.mark.parametrize("name", slow_except(["cascade-ahead", "pkg"], SHARING))
def test_streams_learn_as_simulated_sources_do_through_a_restart(
    spark: Any, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "in"
    batches: dict[int, list[Row]] = {}
    for until in (1, 3):  # the query stops after the first micro-batch and is started again
        for batch in range(len(batches), until):
            write_batch(folder, batch)
        stream = routed_stream(spark, folder, strategy=name, ledger=str(tmp_path / "ledger"))
        batches |= run(stream, "append", tmp_path / "checkpoint")
    assert sorted(batches) == [0, 1, 2]
    strategy = registry.make(name)
    states = [strategy.start(N_WORKERS, SEED, source=source) for source in range(2)]
    table = strategy.start(N_WORKERS, SEED, source=0)
    homes = []
    for batch in range(3):
        read = by_source(batches[batch])
        assert sorted(read) == [0, 1]
        for source, (keys, workers) in read.items():
            assert routed_by(strategy, keys, states[source]).tolist() == workers
        every = np.concatenate([keys for keys, _ in read.values()])
        pairs = [
            (k, w) for keys, workers in read.values() for k, w in zip(keys, workers, strict=True)
        ]
        homes.append(dict(pairs))
        if isinstance(strategy, Rebalances):
            distinct, counts = np.unique(every, return_counts=True)
            report = Report(distinct, counts.astype(np.float64), np.ones(distinct.size))
            table, _ = strategy.rebalance(report, table)
            states = [copy_state(table) for _ in states]
        elif isinstance(strategy, Merges):
            states = merge_and_fork(strategy, states)
    if name == "mixed":
        assert any(homes[1].get(key, home) != home for key, home in homes[0].items())


def test_a_batch_that_is_repeated_by_fewer_sources_is_reported_by_those_alone(
    spark: Any, tmp_path: Path, settings: Any
) -> None:
    folder, ledger = tmp_path / "in", Ledger(str(tmp_path / "ledger"))
    for batch in range(3):
        write_batch(folder, batch)

    def fail(rows: DataFrame, number: int) -> None:
        spark.sparkContext.setJobGroup("a group of the sink's own", "")
        rows.collect()  # by then all sources have reported
        if number == 1:
            raise RuntimeError("as the test asked for")

    stream = routed_stream(spark, folder, strategy="pkg", ledger=ledger.folder)
    writer = stream.writeStream.foreachBatch(fail)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match="as the test asked for"):
        query.awaitTermination()
    assert [list(read_reports(ledger, batch)) for batch in range(2)] == [[0, 1], [0, 1]]
    reports = tmp_path / "ledger" / "reports" / "00000001"
    (first_run,) = reports.iterdir()

    settings("spark.sql.files.minPartitionNum", "1")  # as on a machine of one core
    batches = run(stream, "append", tmp_path / "checkpoint")
    assert sorted(batches) == [1, 2]
    assert [list(read_reports(ledger, batch)) for batch in range(3)] == [[0, 1], [0], [0]]
    assert read_report(ledger, 1, 1) is None  # it is there, and is passed over
    assert (first_run / "source-00001.arrow").exists()
    assert (
        len(list(reports.iterdir())) == 2
    )  # though both runs are of one query and one group of jobs
    assert read_balance(ledger, 1, N_WORKERS).records == len(batches[1]) == 1500
    plan = ledger.read(plan_name(2))
    assert plan is not None
    assert plan.arrays["sources"].tolist() == [0, 1]
    assert plan.arrays["reported"].tolist() == [1, 0]  # the last batch of each


def test_each_query_has_its_own_folder_below_the_ledger_of_the_settings(
    spark: Any, tmp_path: Path, settings: Any
) -> None:
    settings("spark.skewless.ledger", str(tmp_path / "all"))
    write_batch(tmp_path / "in", 0)
    stream = routed_stream(spark, tmp_path / "in", strategy="pkg")
    run(stream, "append", tmp_path / "checkpoint")
    (folder,) = (tmp_path / "all").iterdir()
    assert folder.name in (tmp_path / "checkpoint" / "metadata").read_text()
    assert Ledger(str(folder)).batches() == [0]


def test_a_ledger_says_which_version_wrote_it_and_refuses_another_layout_of_the_state(
    spark: Any, tmp_path: Path
) -> None:
    @dataclass(frozen=True)
    class Changed(PartialKey):
        state_version: ClassVar[int] = 2

    write_batch(tmp_path / "in", 0)
    ledger = Ledger(str(tmp_path / "ledger"))
    stream = routed_stream(spark, tmp_path / "in", strategy="pkg", ledger=ledger.folder)
    run(stream, "append", tmp_path / "checkpoint")
    identity = ledger.identity() or {}
    assert identity["skewless"] == version("skewless")
    assert identity["state_layout"].endswith("-1")
    with pytest.raises(LedgerMismatch, match="strategy pkg keeps its state in another layout"):
        routed_stream(spark, tmp_path / "in", strategy=Changed(), ledger=ledger.folder)
