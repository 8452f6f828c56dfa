"""A stream goes on in the form in which it began, or is refused, or its state means the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import functions as F

from skewless import aggregations as aggs
from skewless.spark import BalanceListener, explain_balance
from skewless.spark.aggregation.aggregate import aggregate
from skewless.spark.ledger.ledger import Ledger, LedgerMismatch
from skewless.spark.routing.worker_steps import first_workers
from spark.ledger.entries import read_workers
from spark.streams import (
    assert_same_batches,
    native,
    plain,
    read_stream,
    records,
    run,
    spread,
    vector_spread,
    write_file,
)

pytestmark = pytest.mark.spark


@pytest.mark.slow
def test_a_stream_goes_on_as_its_ledger_began(spark: Any, tmp_path: Path) -> None:
    write_file(tmp_path / "in", 0, records(200, seed=1))
    df = read_stream(spark, tmp_path / "in")
    chosen = {"n": aggs.count(), "var": aggs.variance("v")}
    options: dict[str, Any] = {"workers": 2, "ledger": str(tmp_path / "ledger")}
    # As an older version began it: "auto" would be "plain" today.
    run(aggregate(df, "k", chosen, strategy="cascade", **options), "update", tmp_path / "ours")
    write_file(tmp_path / "in", 1, records(200, seed=2))
    with pytest.raises(LedgerMismatch, match="was written for strategy=cascade, not plain"):
        aggregate(df, "k", chosen, strategy="plain", **options)
    with pytest.raises(LedgerMismatch, match="was written for strategy=cascade, not local"):
        aggregate(df, "k", chosen, strategy="local", **options)
    batches = run(aggregate(df, "k", chosen, **options), "update", tmp_path / "ours")
    others = plain(read_stream(spark, tmp_path / "in"), ["k"], None, names=list(chosen))
    wanted = run(others, "update", tmp_path / "plain")
    assert_same_batches(batches, {1: wanted[1]}, ["k"])
    assert read_workers(Ledger(str(tmp_path / "ledger")), 1)  # it was routed


def test_a_ledger_of_process_is_refused_in_one_line(spark: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "ledger")
    Ledger(folder).claim({"process": 1, "key": "k string", "seed": 3, "skewless": "0"})
    write_file(tmp_path / "in", 0, records(20, seed=1))
    df = read_stream(spark, tmp_path / "in")
    for chosen in ({"n": aggs.count()}, {"spread": spread()}):
        with pytest.raises(LedgerMismatch, match=r"ledger was written by process, .*, not by agg"):
            aggregate(df, "k", chosen, ledger=folder)
        for strategy in ("local", "cascade"):
            with pytest.raises(LedgerMismatch, match="was written by process"):
                aggregate(df, "k", chosen, strategy=strategy, ledger=folder)


@pytest.mark.slow
def test_a_stream_that_routes_nothing_claims_its_ledger(spark: Any, tmp_path: Path) -> None:
    write_file(tmp_path / "in", 0, records(200, seed=1))
    df = read_stream(spark, tmp_path / "in")
    folder = str(tmp_path / "ledger")
    chosen = {"spread": spread(), "vector_spread": vector_spread()}
    run(aggregate(df, "k", chosen, ledger=folder), "update", tmp_path / "ours")
    assert (Ledger(folder).identity() or {})["strategy"] == "local"
    assert "strategy local, key k" in str(explain_balance(folder))
    assert "nothing is routed" in str(explain_balance(folder))
    assert first_workers(BalanceListener(folder).ledger) is None
    with pytest.raises(LedgerMismatch, match="was written for strategy=local, not cascade"):
        aggregate(df, "k", chosen, strategy="cascade", ledger=folder)
    with pytest.raises(LedgerMismatch, match=r"was written for state 1=.*Spread"):
        aggregate(df, "k", {"spread": vector_spread()}, ledger=folder)
    other = aggregate(df, "k", chosen, ledger=folder)
    with pytest.raises(Exception, match="belongs to the query"):
        run(other, "update", tmp_path / "another")
    write_file(tmp_path / "in", 1, records(200, seed=2))
    batches = run(aggregate(df, "k", chosen, ledger=folder), "update", tmp_path / "ours")
    others = plain(read_stream(spark, tmp_path / "in"), ["k"], None, names=list(chosen))
    wanted = run(others, "update", tmp_path / "plain")
    assert_same_batches(batches, {1: wanted[1]}, ["k"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:no ledger")
def test_without_a_ledger_the_state_means_the_same_in_every_form(
    spark: Any, tmp_path: Path
) -> None:
    """Spark compares the types in a checkpoint, so what it lets pass must also be equal."""
    names = ["n", "n_v", "sum_v", "vwap", "min_s", "distinct", "approx", "list"]
    chosen = {name: native()[name] for name in names}
    batches: dict[int, Any] = {}
    for number, strategy in enumerate(("cascade", "plain", "local", "plain", "cascade")):
        write_file(tmp_path / "in", number, records(150, seed=number))
        df = read_stream(spark, tmp_path / "in")
        ours = aggregate(df, "k", chosen, strategy=strategy, workers=2)
        batches |= run(ours, "update", tmp_path / "ours")
    others = plain(read_stream(spark, tmp_path / "in"), ["k"], None, names=names)
    assert_same_batches(batches, run(others, "update", tmp_path / "plain"), ["k"])
    # A mean has its sum and its count in another order, and a variance is in blocks of ours.
    df = read_stream(spark, tmp_path / "in", files=9)
    others_of_spark = {"mean": aggs.mean("v"), "var": aggs.variance("v")}
    for name, one in others_of_spark.items():
        run(aggregate(df, "k", {name: one}, strategy="local"), "update", tmp_path / name)
    write_file(tmp_path / "in", 9, records(20, seed=9))
    for name, one in others_of_spark.items():
        with pytest.raises(Exception, match=r"STATE_STORE|STREAMING_STATEFUL_OPERATOR"):
            run(aggregate(df, "k", {name: one}), "update", tmp_path / name)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["auto", pytest.param("local", marks=pytest.mark.slow)])
def test_duplicates_may_be_dropped_within_the_watermark_before(
    spark: Any, tmp_path: Path, strategy: str
) -> None:
    for number, seconds in enumerate([(0, 100), (40, 200), (10, 300)]):
        table = records(200, seed=number, seconds=seconds)
        write_file(tmp_path / "in", number, table)

    def stream() -> Any:
        df = read_stream(spark, tmp_path / "in").where("ts is not null")
        return df.withWatermark("ts", "20 seconds").dropDuplicatesWithinWatermark(["k", "v"])

    chosen: dict[str, Any] = {"n": aggs.count(), "sum_v": aggs.sum("v")}
    if strategy == "auto":
        chosen["spread"] = spread()
    ours = aggregate(
        stream(), "k", chosen, window=("ts", "60 seconds"), strategy=strategy, mode="append"
    )
    grouped = stream().groupBy(F.window("ts", "60 seconds"), "k")
    others = grouped.agg(
        F.count("*").alias("n"),
        F.sum("v").alias("sum_v"),
        (F.max("v") - F.min("v")).alias("spread"),
    )
    batches = run(ours, "append", tmp_path / "ours")
    assert_same_batches(batches, run(others, "append", tmp_path / "plain"), ["window", "k"])
    assert sum(map(len, batches.values())) > 50
    with pytest.raises(ValueError, match="watermark: the DataFrame has a watermark already"):
        aggregate(stream(), "k", chosen, window=("ts", "60 seconds"), watermark="20 seconds")


def test_a_wrong_output_mode_names_the_argument(spark: Any, tmp_path: Path) -> None:
    write_file(tmp_path / "in", 0, records(20, seed=1))
    df = read_stream(spark, tmp_path / "in")
    ours = aggregate(df, "k", {"spread": spread()})
    with pytest.raises(Exception, match="aggregate with mode='update', which must be the writer's"):
        run(ours, "append", tmp_path / "append")
    with pytest.raises(Exception, match="output mode: complete"):  # Spark's message has no plan
        run(ours, "complete", tmp_path / "complete")
    with pytest.raises(ValueError, match="mode must be 'update' or 'append', not 'complete'"):
        aggregate(df, "k", {"spread": spread()}, mode="complete")  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_windowed_group_by_may_follow_ready_aggregations_and_no_others(
    spark: Any, tmp_path: Path
) -> None:
    for number, seconds in enumerate([(0, 100), (300, 400)]):
        write_file(tmp_path / "in", number, records(100, seed=number, seconds=seconds))
    options: dict[str, Any] = {"window": ("ts", "20 seconds"), "watermark": "5 seconds"}
    df = read_stream(spark, tmp_path / "in")

    def longer(counted: Any) -> Any:
        return counted.groupBy(F.window("window", "60 seconds")).agg(F.sum("n").alias("n"))

    counted = aggregate(df, "k", {"n": aggs.count()}, strategy="local", **options)
    plainly = aggregate(df, "k", {"n": aggs.count()}, **options)
    batches = run(longer(counted), "append", tmp_path / "local")
    wanted = run(longer(plainly), "append", tmp_path / "plain")
    assert_same_batches(batches, wanted, ["window"])
    assert any(batches.values())
    own = aggregate(df, "k", {"n": spread()}, **options)
    with pytest.raises(Exception, match="not a correct window column"):
        longer(own)
    again = own.groupBy(F.window("window.start", "60 seconds")).agg(F.sum("n"))
    with pytest.raises(Exception, match=r"without watermark|not supported"):
        run(again, "append", tmp_path / "own")
