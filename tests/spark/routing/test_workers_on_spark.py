"""On Spark: balance with several sources, workers of different speed, restarts with others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import DataFrame

from examples.three_choices import ThreeChoices
from skewless import aggregations as aggs
from skewless.metrics import imbalance
from skewless.spark import scale_to
from skewless.spark.aggregation.aggregate import aggregate
from skewless.spark.balance.explaining import explain_balance
from skewless.spark.ledger.ledger import LedgerMismatch
from skewless.spark.routing.route import route
from spark.streams import (
    assert_same_batches,
    configured,
    plain,
    read_stream,
    records,
    run,
    write_file,
)

pytestmark = pytest.mark.spark


def keyed(n_records: int, seed: int, z: float = 1.4) -> pa.Table:
    uniform = 1.0 - np.random.default_rng(seed).random(n_records)
    keys = np.minimum(uniform ** (1 / (1 - z)), 2.0**40).astype(np.int64)
    return pa.table({"k": keys, "v": np.ones(n_records, np.int64)})


def loads_of(folder: Path, batches: slice = slice(None)) -> list[int]:
    """Return the records of each worker."""
    found = explain_balance(str(folder)).batches[batches]
    rows = np.array([[row.records for row in batch.workers] for batch in found])
    return [int(load) for load in rows.sum(axis=0)]


@pytest.mark.slow
def test_fish_balances_sources_with_uneven_batches(spark: Any, tmp_path: Path) -> None:
    sizes = (1, 4_001, 700, 9_003, 20, 6_007, 2_500, 300)
    for number in range(24):
        write_file(tmp_path / "in", number, keyed(sizes[(number * 3) % 8], number))
    stream = read_stream(spark, tmp_path / "in", "k bigint, v bigint", files=8)
    # A file is a partition, and so a source.
    with configured(spark, {"spark.sql.files.openCostInBytes": str(1 << 30)}):
        routed = route(
            stream, "k", strategy="fish", workers=32, seed=1, ledger=str(tmp_path / "ledger")
        )
        run(routed.groupBy("worker").count(), "update", tmp_path / "checkpoint")
    loads = loads_of(tmp_path / "ledger")
    assert sum(loads) == 3 * sum(sizes)
    assert imbalance(loads) <= 0.01


def slow_count() -> aggs.Aggregator[Any]:
    """Return an aggregator that takes half a millisecond per record, and one on worker 1."""

    class SlowCount(aggs.Aggregator[int]):
        inputs = ("v",)
        state = "bigint"
        result = "bigint"

        def zero(self) -> int:
            return 0

        def update(self, state: int, batch: pa.RecordBatch) -> int:
            import time

            from pyspark import TaskContext

            context = TaskContext.get()
            is_slow = context is not None and context.partitionId() == 1
            time.sleep(0.0005 * batch.num_rows * (2 if is_slow else 1))
            return state + int(batch.num_rows)

        def merge(self, a: int, b: int) -> int:
            return a + b

        def finish(self, state: int) -> int:
            return state

    return SlowCount()


@pytest.mark.slow
def test_a_worker_measured_to_be_slow_gets_fewer_records(spark: Any, tmp_path: Path) -> None:
    n_batches, n_records = 6, 2_000
    for number in range(n_batches):
        # Few keys: each call of the aggregator sleeps a little longer than it is told to.
        keys = np.random.default_rng(number).integers(0, 12, n_records)
        table = pa.table({"k": keys, "v": np.ones(n_records, np.int64)})
        write_file(tmp_path / "in", number, table)
    with configured(spark, {"spark.skewless.measuredSpeeds": "true"}):
        results = aggregate(
            read_stream(spark, tmp_path / "in", "k bigint, v bigint"),
            "k",
            {"n": slow_count()},
            strategy="fish",
            workers=4,
            seed=1,
            ledger=str(tmp_path / "ledger"),
        )
    batches = run(results, "update", tmp_path / "checkpoint")
    last = {row["k"]: row["n"] for number in sorted(batches) for row in batches[number]}
    assert sum(last.values()) == n_batches * n_records
    loads = loads_of(tmp_path / "ledger", slice(-2, None))
    others = np.mean([load for worker, load in enumerate(loads) if worker != 1])
    # A record costs more than its sleep, so worker 1 is not quite twice as slow.
    assert 0.4 * others <= loads[1] <= 0.7 * others


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["fish", pytest.param("cascade", marks=pytest.mark.slow)])
def test_a_restart_with_other_workers_equals_plain_spark(
    spark: Any, tmp_path: Path, strategy: str
) -> None:
    chosen = {"n": aggs.count(), "var": aggs.variance("v")}
    ours: dict[int, Any] = {}
    wanted: dict[int, Any] = {}
    steps: list[dict[str, Any]] = [
        {"workers": 3},
        {"workers": 5, "capacities": [1, 2, 1, 1, 2]},
        {},
        {"workers": 2},
    ]
    for number, workers in enumerate(steps):
        write_file(tmp_path / "in", number, records(400, number))

        def routed(df: DataFrame, workers: dict[str, Any] = workers) -> DataFrame:
            ledger = str(tmp_path / "ledger")
            return aggregate(df, "k", chosen, strategy=strategy, seed=1, ledger=ledger, **workers)

        ours |= run(routed(read_stream(spark, tmp_path / "in")), "update", tmp_path / "ours")
        other = plain(read_stream(spark, tmp_path / "in"), ["k"], None, None, chosen)
        wanted |= run(other, "update", tmp_path / "plain")
    assert_same_batches(ours, wanted, ["k"])
    balance = explain_balance(str(tmp_path / "ledger"))
    assert [len(batch.workers) for batch in balance.batches] == [3, 5, 5, 2]
    assert balance.identity["workers"] == 2


@pytest.mark.parametrize(
    "strategy", ["pkg", "fish", pytest.param("cascade-ahead", marks=pytest.mark.slow)]
)
def test_workers_come_and_go_in_mid_stream(spark: Any, tmp_path: Path, strategy: str) -> None:
    """16, 12 and 20 workers, a restart after that; the results are those of plain Spark."""
    chosen = {"n": aggs.count(), "var": aggs.variance("v")}
    ledger = str(tmp_path / "ledger")
    for number in range(4):
        write_file(tmp_path / "in", number, records(400, number))
    at = {1: 12, 2: 20}  # asked for once this batch is written

    def scaling(batch: int) -> None:
        if batch in at:
            scale_to(ledger, at[batch])

    def routed(**workers: int) -> DataFrame:
        stream = read_stream(spark, tmp_path / "in")
        return aggregate(
            stream, "k", chosen, strategy=strategy, seed=1, ledger=ledger, max_workers=24, **workers
        )

    ours = run(routed(workers=16), "update", tmp_path / "ours", after=scaling)
    write_file(tmp_path / "in", 4, records(400, 4))
    ours |= run(routed(), "update", tmp_path / "ours")  # a restart with the ledger's number
    scale_to(ledger, 3)  # while the query is stopped
    write_file(tmp_path / "in", 5, records(400, 5))
    ours |= run(routed(workers=16), "update", tmp_path / "ours")
    plain_stream = plain(read_stream(spark, tmp_path / "in"), ["k"], None, None, chosen)
    assert_same_batches(ours, run(plain_stream, "update", tmp_path / "plain"), ["k"])
    balance = explain_balance(ledger)
    assert [len(batch.workers) for batch in balance.batches] == [16, 16, 12, 20, 20, 3]


def test_a_strategy_that_cannot_rescale_refuses_other_workers(spark: Any, tmp_path: Path) -> None:
    write_file(tmp_path / "in", 0, keyed(50, 1))
    stream = read_stream(spark, tmp_path / "in", "k bigint, v bigint")
    options: dict[str, Any] = {"strategy": ThreeChoices(), "seed": 1}
    options["ledger"] = str(tmp_path / "ledger")
    routed = route(stream, "k", workers=3, **options)
    run(routed.groupBy("worker").count(), "update", tmp_path / "checkpoint")
    with pytest.raises(LedgerMismatch, match="was written for workers=3, not 4"):
        route(stream, "k", workers=4, **options)
    with pytest.raises(ValueError, match="max_workers: strategy 'three-choices' cannot change"):
        route(stream, "k", workers=3, max_workers=4, **options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"capacities": [1.0, 2.0]}, "capacities must be one number per worker: 3, not 2"),
        ({"capacities": [0.0, 0.0, 0.0]}, "one of them above 0 with a finite sum"),
        ({"capacities": [1.0, 2.0, float("nan")]}, "with a finite sum, not"),
        ({"capacities": [1e308, 1e308, 1.0]}, "with a finite sum, not"),
        (
            {"capacities": [1.0, 0.0, 2.0], "strategy": "pkg"},
            "capacities: strategy 'pkg' ignores differences in speed",
        ),
        ({"max_workers": 2}, r"max_workers must be at least workers \(3\), not 2"),
        ({"max_workers": "many"}, "max_workers must be a whole number, not 'many'"),
        ({"capacities": "fast"}, "capacities must be numbers, not 'fast'"),
        (
            {"capacities": [1, 2, 3], "strategy": "pkg"},
            "capacities: strategy 'pkg' ignores differences in speed; use one of .*'fish'",
        ),
    ],
)
def test_bad_capacities_are_refused(spark: Any, options: dict[str, Any], text: str) -> None:
    df = spark.range(10)
    options = {"strategy": "fish", "workers": 3, **options}
    with pytest.raises(ValueError, match=text):
        route(df, "id", **options)
    with pytest.raises(ValueError, match=text):
        aggregate(df, "id", {"n": aggs.count()}, **options)


def test_a_batch_job_goes_by_capacities(spark: Any) -> None:
    df = spark.range(0, 30_000, 1, 2).selectExpr("id % 1000 as k")
    routed = route(df, "k", strategy="fish", workers=3, capacities=[1, 2, 3], seed=1)
    loads = {row["worker"]: row["count"] for row in routed.groupBy("worker").count().collect()}
    assert imbalance([loads[worker] for worker in range(3)], [1, 2, 3]) < 0.05


@pytest.mark.parametrize("strategy", ["fish", "pkg", "auto"])
def test_a_worker_of_capacity_0_gets_no_records(spark: Any, strategy: str) -> None:
    df = spark.range(0, 3_000, 1, 2).selectExpr("id % 1000 as k")
    routed = route(df, "k", strategy=strategy, workers=3, capacities=[1, 0, 1], seed=1)
    assert {row["worker"] for row in routed.select("worker").distinct().collect()} == {0, 2}


def test_a_query_says_once_that_it_does_not_use_measured_speeds(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_file(tmp_path / "in", 0, keyed(50, 1))
    stream = read_stream(spark, tmp_path / "in", "k bigint, v bigint")

    def lines(strategy: str, measured: str) -> list[str]:
        caplog.clear()
        ledger = str(tmp_path / f"{strategy}-{measured}")
        with configured(spark, {"spark.skewless.measuredSpeeds": measured}):
            aggregate(stream, "k", {"n": aggs.count()}, strategy=strategy, ledger=ledger)
        return [line for line in caplog.messages if "measure" in line]

    with caplog.at_level("INFO", "skewless"):
        (line,) = lines("fish", "false")
        assert "set spark.skewless.measuredSpeeds to true" in line
        assert lines("fish", "true") == lines("cascade", "false") == []
        with pytest.raises(ValueError, match="measuredSpeeds must be true or false, not 'yes'"):
            lines("fish", "yes")


def test_the_balance_tells_what_records_cost(spark: Any, tmp_path: Path) -> None:
    table = keyed(3_000, 1).append_column("cost", pa.array(np.resize([1.0, 9.0], 3_000)))
    write_file(tmp_path / "in", 0, table)
    stream = read_stream(spark, tmp_path / "in", "k bigint, v bigint, cost double")
    ledger = str(tmp_path / "ledger")
    routed = route(stream, "k", workers=3, weight="cost", seed=1, ledger=ledger)
    run(routed.groupBy("worker").count(), "update", tmp_path / "checkpoint")
    (batch,) = explain_balance(ledger).batches
    costs = [row.cost for row in batch.workers]
    assert None not in costs
    assert sum(cost or 0.0 for cost in costs) == pytest.approx(15_000)
    assert batch.cost_imbalance == pytest.approx(imbalance([cost or 0.0 for cost in costs]))
    assert batch.cost_imbalance < 0.1
