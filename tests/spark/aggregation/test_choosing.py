"""Which form "auto" takes, where it is told, and what is refused."""

from __future__ import annotations

import logging
import re
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import functions as F

from skewless import aggregations as aggs
from skewless.spark.aggregation import sampling
from skewless.spark.aggregation.aggregate import aggregate
from skewless.spark.aggregation.choosing import Choice, _of_batch, choose
from skewless.spark.aggregation.sampling import Source, known_source, tally
from skewless.spark.records import Records
from skewless.spark.routing.arguments import routing_arguments
from skewless.spark.routing.route import DEFAULT_STRATEGY
from spark.streams import assert_same_rows, spread, vector_spread

pytestmark = pytest.mark.spark
READY = {"n": aggs.count()}


def median() -> Any:
    class Median(aggs.Aggregator[Any]):
        inputs = ("v",)
        state = result = "double"
        merges = False

        def zero(self) -> None:
            return None

        def update(self, state: None, records: Any) -> Any:
            values = records["v"].drop_null().to_numpy(zero_copy_only=False)
            return float(np.median(values)) if values.size else None

        def finish(self, state: Any) -> Any:
            return state

    return Median()


@pytest.fixture(scope="module")
def df(spark: Any) -> Any:
    """Return 4 partitions; half of the records have one key."""
    key = F.when(F.col("id") % 2 == 0, 0).otherwise(F.col("id") % 50)
    return spark.range(0, 2_000, 1, 4).select(key.alias("k"), (F.col("id") % 17).alias("v"))


def test_capacities_count_only_where_auto_routes(df: Any) -> None:
    """They do not change the choice; only a router could take them into account."""
    for chosen in (READY, {"s": spread()}):
        given = aggregate(df, "k", chosen, workers=2, capacities=[1, 2])
        assert_same_rows(given.collect(), aggregate(df, "k", chosen).collect(), ["k"])
    with pytest.raises(ValueError, match="'pkg' ignores differences in speed"):
        aggregate(df, "k", READY, strategy="pkg", workers=2, capacities=[1, 2])


def form(
    df: Any,
    chosen: dict[str, Any],
    strategy: Any = "auto",
    weight: Any = None,
    untrusted_keys: bool = False,
) -> Choice:
    given = routing_arguments(df, workers=4, untrusted_keys=untrusted_keys)
    return choose(Records.of(df).by("k"), chosen, strategy, given, weight)


def test_kinds_of_aggregations_decide(df: Any) -> None:
    ready = {"n": aggs.count(), "d": aggs.distinct("v"), "a": aggs.distinct("v", exact=False)}
    own = {"n": aggs.count(), "spread": spread()}
    assert form(df, {**ready, "var": aggs.variance("v")}).form == "plain"
    assert form(df, own).form == form(df, {"s": vector_spread()}).form == "local"
    assert form(df, {**own, "m": median()}).form == "together"
    exposed = form(df, {"m": median()}, untrusted_keys=True)
    assert (exposed.form, exposed.strategy) == ("route", "hash")
    assert form(df, ready, weight="v") == Choice("route", DEFAULT_STRATEGY, "records have weights")
    assert form(df, ready, "local").form == "local"
    assert form(df, ready, "pkg") == Choice("route", "pkg", "as given")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (None, "local"),
        (Source(8, 8), "local"),
        (Source(8, 8, 2.0, 0.9), "local"),
        (Source(5, 8, 2.0, 0.9), "local"),
        (Source(4, 8, 100.0, 0.9), DEFAULT_STRATEGY),
        (Source(4, 8, 100.0, 0.01), "hash"),
        (Source(4, 8), DEFAULT_STRATEGY),
        (Source(4, 4, 100.0, 0.9), "local"),  # more workers than slots make no idle slots
        (Source(8, 8, 1.9, 0.2), DEFAULT_STRATEGY),
        (Source(8, 8, 1.9, 0.18), "hash"),  # 1.5 of 8 even shares are 0.1875
    ],
)
def test_the_source_of_a_batch_decides(source: Source | None, name: str) -> None:
    choice = _of_batch(source, workers=8)
    assert choice.strategy == name
    assert choice.form == {"local": "local", "hash": "together", DEFAULT_STRATEGY: "route"}[name]


def test_a_sample_tells_records_per_key_and_the_heaviest(
    df: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = Records.of(df).by("k")
    assert known_source(records, 4) == Source(4, 2)  # too small to look at
    monkeypatch.setattr(sampling, "_SMALL_BYTES", 0)
    found = known_source(records, 4)
    assert found is not None
    assert found.partitions == 4
    assert found.top_share == pytest.approx(0.5)
    assert found.records_per_key == pytest.approx(500 / 26)  # 0, and the 25 odd ones below 50
    nothing = known_source(Records.of(df.where("v < 0")).by("k"), 4)
    assert nothing is not None
    assert nothing.records_per_key is None
    cached = df.withColumn("w", F.lit(1)).cache()
    for costly in (df.distinct(), df.join(df.limit(3), "k"), cached):
        assert known_source(Records.of(costly).by("k"), 4) is None
    cached.unpersist()


def test_the_sample_reads_no_more_than_it_must() -> None:
    import pyarrow as pa

    def batches() -> Any:
        for _ in range(3):
            yield pa.record_batch([pa.array(np.zeros(1 << 17, np.int64))], ["key"])
        raise AssertionError("it reads on")

    (row,) = tally(batches())
    told = {"records": 1 << 18, "keys": 1, "heaviest": [0], "counts": [1 << 18]}
    assert row.to_pylist() == [told]
    assert list(tally(iter([]))) == []


def test_only_records_of_equal_keys_are_added(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_SMALL_BYTES", 0)
    # Two partitions, each of one key: no key has more than half of the records.
    halves = spark.range(0, 2_000, 1, 2).select((F.col("id") < 1_000).alias("k"))
    assert known_source(Records.of(halves).by("k"), 8) == Source(2, 2, 1_000.0, 0.5)
    # A key that is second in one partition and first in the other has the records of both.
    uneven = F.expr("if(id < 1000, if(id < 600, 1, 0), if(id < 1900, 0, 2))")
    mixed = spark.range(0, 2_000, 1, 2).select(uneven.alias("k"))
    found = known_source(Records.of(mixed).by("k"), 8)
    assert found is not None
    assert found.top_share == 1_300 / 2_000


def test_a_batch_is_computed_as_the_sample_says(
    df: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sampling, "_SMALL_BYTES", 0)
    many = df.withColumn("k", F.expr("if(v < 4, -1, v * 1000000 + monotonically_increasing_id())"))
    even = df.withColumn("k", F.monotonically_increasing_id())
    for records, name in ((df, "local"), (many, DEFAULT_STRATEGY), (even, "hash")):
        caplog.clear()
        with caplog.at_level(logging.INFO, "skewless"):
            ours = aggregate(records, "k", {"spread": spread()}, workers=8)
        told = [line for line in caplog.messages if line.startswith("aggregate: strategy")]
        assert [re.findall(r"strategy '([\w-]+)'", line) for line in told] == [[name]]
        others = records.groupBy("k").agg((F.max("v") - F.min("v")).alias("spread"))
        assert_same_rows(ours.collect(), others.collect(), ["k"])


def test_the_choice_is_logged_once_and_explain_shows_it(
    df: Any, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO, "skewless"):
        aggregate(df, "k", {"n": aggs.count()}).explain()
        aggregate(df, "k", {"spread": spread()}, workers=4).explain()
        aggregate(df, "k", {"spread": spread()}, workers=4, strategy="pkg", seed=0).explain()
    told = [line for line in caplog.messages if line.startswith("aggregate:")]
    assert told == [
        "aggregate: strategy 'plain': Spark has all these aggregations",
        "aggregate: strategy 'local': states merge",
        "aggregate: strategy 'pkg': as given",
    ]
    plans = capsys.readouterr().out.split("== Physical Plan ==")[1:]
    assert "Python" not in plans[0]
    assert "skewless strategy 'local': states merge" in plans[1]
    assert "skewless strategy 'pkg': as given" in plans[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"strategy": "plain"},
            "strategy 'plain': aggs: 's' (Spread) is not an aggregation of Spark: use",
        ),
        ({"strategy": "local", "weight": "v"}, "weight: strategy 'local' routes nothing; name a"),
        (
            {"strategy": "local", "workers": 2, "capacities": [1, 2]},
            "capacities: strategy 'local' routes nothing; name a strategy",
        ),
        (
            {"strategy": "plain", "aggs": READY, "workers": 2, "capacities": [1, 2]},
            "capacities: strategy 'plain' routes nothing; name a strategy",
        ),
        (
            {"strategy": "plain", "aggs": READY, "workers": 2, "capacities": [1, -2]},
            "capacities must be finite numbers of at least 0, one of them above 0, not [1.0, -2.0]",
        ),
        (
            {"aggs": READY, "workers": 3, "capacities": [1, 2]},
            "capacities must be one number per worker: 3, not 2",
        ),
        (
            {"aggs": {"m": median()}, "workers": 2, "capacities": ["fast", "slow"]},
            "capacities must be numbers, not ['fast', 'slow']",
        ),
        (
            {"aggs": {"m": median()}, "weight": "v"},
            "weight: strategy 'hash' does not weigh records",
        ),
        ({"strategy": "plane"}, "unknown strategy 'plane'; did you mean 'plain'?"),
        ({"strategy": "local", "aggs": {"m": median()}}, "'m' does not merge (its class says"),
        ({"strategy": "plain", "aggs": {"n": aggs.count()}, "seed": -1}, "seed must be"),
        ({"strategy": "plain", "aggs": {"n": aggs.count()}, "workers": 0}, "workers must be"),
        ({"strategy": "plain", "aggs": {"n": aggs.count()}, "ledger": ""}, "ledger must be"),
        (
            {"strategy": "plain", "aggs": {"n": aggs.count()}, "untrusted_keys": 5},
            "untrusted_keys must be true or false, not 5",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "options",
)
def test_what_does_not_go_together_is_refused(
    df: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        aggregate(df, **{"key": "k", "aggs": {"s": spread()}, **options})


def test_keys_and_inputs_may_be_fields_and_expressions(df: Any) -> None:
    nested = df.select(F.struct("k", F.struct("v").alias("in")).alias("a"))
    chosen = {"total": aggs.sum("a.in.v"), "twice": aggs.max("a.in.v * 2 + 1")}
    others = nested.groupBy("a.k", F.expr("a.in.v % 2")).agg(
        F.sum("a.in.v").alias("total"), F.max(F.expr("a.in.v * 2 + 1")).alias("twice")
    )
    rows = others.collect()
    for strategy in ("plain", "local", "cascade"):
        ours = aggregate(nested, ["a.k", "a.in.v % 2"], chosen, strategy=strategy, workers=2)
        assert ours.columns == others.columns == ["k", "(a.in.v % 2)", "total", "twice"]
        assert_same_rows(ours.collect(), rows, ours.columns[:2])
    for key, wrong in (("a.x", "a.x"), ("a.k +", "a.k +"), ("sum(a.k)", "sum(a.k)")):
        with pytest.raises(ValueError, match=f"^key: .*{re.escape(wrong)}"):
            aggregate(nested, key, chosen)
        with pytest.raises(ValueError, match=f"^aggs: 'n': .*{re.escape(wrong)}"):
            aggregate(nested, "a.k", {"n": aggs.sum(wrong)})
