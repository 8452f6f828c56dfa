"""Which form "auto" takes, where it is told, and what is refused."""

from __future__ import annotations

import logging
import re
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import functions as F

from skewless import aggregations as aggs
from skewless.spark.aggregation import choosing
from skewless.spark.aggregation.aggregate import aggregate
from skewless.spark.aggregation.arguments import Asked, asked_for
from skewless.spark.aggregation.choosing import (
    Choice,
    Sample,
    Source,
    _of_batch,
    choose,
    known_source,
    sample_of,
)
from skewless.spark.aggregation.partials import Partials
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


def texts() -> Any:
    class Texts(aggs.Aggregator[Any]):
        inputs = ("v",)
        state = result = "string"

        def zero(self) -> str:
            return ""

        def update(self, state: str, records: Any) -> str:
            return (state + "x" * 1_000 * records.num_rows)[:2_000]

        def merge(self, one: str, other: str) -> str:
            return max(one, other)

        def finish(self, state: str) -> str:
            return state

    return Texts()


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
    return choose(asked(df, chosen), strategy, given, weight)


def asked(df: Any, chosen: dict[str, Any]) -> Asked:
    return asked_for(Records.of(df).by("k"), chosen, None, None, None)


def test_kinds_of_aggregations_decide(df: Any) -> None:
    ready = {"n": aggs.count(), "d": aggs.distinct("v"), "a": aggs.distinct("v", exact=False)}
    own = {"n": aggs.count(), "spread": spread()}
    assert form(df, {**ready, "var": aggs.variance("v")}).form == "plain"
    assert form(df, own).form == form(df, {"s": vector_spread()}).form == "local"
    assert form(df, {**own, "m": median()}).form == "together"
    exposed = form(df, {"m": median()}, untrusted_keys=True)
    assert (exposed.form, exposed.strategy) == ("route", "hash")
    assert form(df, ready, weight="v") == Choice("plan", "plan", "records have weights")
    costly = form(df.distinct(), ready, weight="v")  # it would have to be counted
    assert costly == Choice("route", DEFAULT_STRATEGY, "records have weights")
    assert form(df, ready, "plan") == Choice("plan", "plan", "as given")
    assert form(df, ready, "local").form == "local"
    assert form(df, ready, "pkg") == Choice("route", "pkg", "as given")


def timed(
    update_s: float,
    keys: float = 0.01,
    top: float = 0.5,
    merge_s: float = 1e-6,
    partial_bytes: float = 16,
    key_s: float = 0.0,
) -> Sample:
    return Sample(1 << 14, keys, keys / 2, top, update_s, key_s, merge_s, partial_bytes)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (None, "local"),
        (Source(8, 8, 1e9), "local"),  # no sample was needed
        (Source(8, 8, 1e7, timed(1e-3)), "local"),  # nothing to gain: all slots are busy
        (Source(2, 8, 1e6, timed(1e-6)), "local"),  # idle slots, but moving records costs more
        (Source(2, 8, 1e4, timed(1e-6)), "local"),
        (Source(1, 8, 1e6, timed(1e-4)), DEFAULT_STRATEGY),  # idle slots, costly work, a hot key
        (Source(1, 8, 1e6, timed(1e-4, top=0.001)), "hash"),  # the same, and no key is hot
        (Source(1, 1, 1e6, timed(1e-4)), "local"),  # more workers than slots make no idle slots
        # Every record has a key of its own, and merging costs more than combining.
        (
            Source(
                *(8, 8, 1e8), timed(1e-6, keys=1.0, top=0.001, merge_s=2e-5)._replace(new_keys=1.0)
            ),
            "hash",
        ),
        # The same partial result comes from every partition, and is large.
        (Source(8, 8, 1e6, timed(1e-6, keys=0.1, top=0.001, partial_bytes=32_768)), "hash"),
        (Source(8, 8, 1e6, timed(1e-6, keys=0.1, top=0.001)), "local"),
        # A state costs more to begin than a record to add, and each partition begins all of them.
        (Source(8, 8, 1e6, timed(1e-8, top=0.01, key_s=1e-2)._replace(new_keys=0.0)), "hash"),
        # The bytes of a compressed file tell of too few records.
        (
            Source(32, 32, 2e5, timed(2e-6, keys=0.05, top=0.3, partial_bytes=32_768)),
            DEFAULT_STRATEGY,
        ),
    ],
)
def test_the_source_of_a_batch_decides(source: Source | None, name: str) -> None:
    choice = _of_batch(source, workers=8)
    assert choice.strategy == name
    assert choice.form == {"local": "local", "hash": "together", DEFAULT_STRATEGY: "route"}[name]


@pytest.mark.parametrize(
    ("top", "name"),
    [(0.0005, "hash"), (0.122, DEFAULT_STRATEGY), (0.335, DEFAULT_STRATEGY)],
    ids=["Zipf 0.0", "Zipf 1.0", "Zipf 1.4"],
)
def test_the_task_with_a_hot_key_also_takes_its_records_longer(top: float, name: str) -> None:
    """The update is cheap, but the busiest of 32 workers reads millions of records."""
    sample = timed(1e-7, keys=0.1, top=top, partial_bytes=32_768)
    assert _of_batch(Source(32, 32, 2.4e7, sample), workers=32).strategy == name


def test_later_records_have_fewer_new_keys() -> None:
    sample = timed(1e-7, keys=0.1)  # half as many new keys at the end: as many as the root
    assert sample.keys_of(100 * sample.records) == pytest.approx(10 * 0.1 * sample.records)
    assert sample.keys_of(10) == pytest.approx(0.1 * sample.records)
    unique = sample._replace(keys_per_record=1.0, new_keys=1.0)
    assert unique.keys_of(1e9) == pytest.approx(1e9)
    assert sample._replace(new_keys=0.0).keys_of(1e9) == pytest.approx(0.1 * sample.records)


def test_a_pause_of_the_driver_is_no_cost(df: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    partials = asked(df, {"s": vector_spread()}).partials
    inner, calls = Partials.update, []

    def update(self: Partials, table: pa.Table) -> pa.Table:
        calls.append(table.num_rows)
        if len(calls) == 4:  # the first time that all records are combined
            time.sleep(0.03)
        return inner(self, table)

    monkeypatch.setattr(Partials, "update", update)
    keys = pa.array(np.arange(1 << 14) % 1_000)
    sample = sample_of(pa.table([keys, keys], schema=partials.schema), partials)
    assert calls[3] == 1 << 14
    assert sample.key_s < 0.03 / 1_000 / 2


def test_the_sample_times_the_aggregators_and_counts_keys(
    df: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = asked(df, {"s": spread()})
    found = known_source(wanted, 4)
    assert found is not None
    assert (found.partitions, found.slots, found.sample) == (4, 2, None)  # the answer is known
    large = known_source(asked(df, {"s": texts()}), 4)  # a state may become large
    assert large is not None
    assert large.sample is not None
    assert large.sample.partial_bytes > 1_000
    monkeypatch.setattr(choosing, "_SMALL_BYTES", 0)
    found = known_source(wanted, 4)
    assert found is not None
    sample = found.sample
    assert sample is not None
    assert sample.top_share == pytest.approx(0.5)
    assert sample.keys_per_record == pytest.approx(26 / 2_000)  # 0, and the 25 odd ones below 50
    assert sample.new_keys == 0.0
    assert sample.update_s > 0
    assert sample.merge_s > 0
    assert found.records > 100
    nothing = known_source(asked(df.where("v < 0"), {"s": spread()}), 4)
    assert nothing is not None
    assert nothing.sample is None
    for costly in (df.distinct(), df.join(df.select("k").limit(3), "k")):
        assert known_source(asked(costly, {"s": spread()}), 4) is None


def test_a_sample_is_one_task_but_behind_a_filter_all_slots_look_for_it(
    spark: Any, df: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a selective filter, one task would read all records for a sample that never fills."""
    monkeypatch.setattr(choosing, "_SMALL_BYTES", 0)
    context = spark.sparkContext
    tracker = context.statusTracker()
    for records, n_tasks in ((df, 1), (df.where("v = 3"), context.defaultParallelism)):
        group = f"sample with {n_tasks} tasks"
        context.setJobGroup(group, group)
        try:
            source = known_source(asked(records, {"s": spread()}), 4)
        finally:
            context.setLocalProperty("spark.jobGroup.id", None)
        assert source is not None
        assert source.sample is not None
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        stages = [tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds]
        assert max(stage.numTasks for stage in stages) == n_tasks


def test_slow_aggregators_are_timed_on_few_records(
    df: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    partials = asked(df, {"s": spread()}).partials
    given: list[int] = []

    def update(self: Partials, table: pa.Table) -> pa.Table:
        given.append(table.num_rows)
        time.sleep(1e-3 * (table.num_rows > 64) + 2e-4 * table.num_rows)
        return inner(self, table)

    inner = Partials.update
    monkeypatch.setattr(Partials, "update", update)
    zeros = pa.array(np.zeros(1 << 14, np.int64))
    sample = sample_of(pa.table([zeros, zeros], schema=partials.schema), partials)
    assert given == [64, 256, 256]
    assert 2e-4 <= sample.update_s < 2e-3
    assert (sample.top_share, sample.new_keys) == (1.0, 0.0)


def test_aggregators_that_fail_on_the_driver_are_not_timed(
    df: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Only executors may have what they need; otherwise the job says what is wrong."""
    monkeypatch.setattr(choosing, "_SMALL_BYTES", 0)

    def update(self: Partials, table: pa.Table) -> pa.Table:
        raise FileNotFoundError("/models/fraud.bin")

    monkeypatch.setattr(Partials, "update", update)
    with caplog.at_level(logging.INFO, "skewless"):
        found = known_source(asked(df, {"s": spread()}), 4)
    assert found is not None
    assert found.sample is None
    assert "could not be timed on the driver: /models/fraud.bin" in caplog.text


@pytest.mark.parametrize("name", ["local", DEFAULT_STRATEGY, "hash"])
def test_a_batch_is_computed_as_the_sample_says(
    df: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    monkeypatch.setattr(choosing, "_SMALL_BYTES", 0)
    forms = {"local": 9.0, "hash": 9.0, DEFAULT_STRATEGY: 9.0}
    monkeypatch.setattr(choosing, "form_seconds", lambda *_: forms | {name: 1.0})
    with caplog.at_level(logging.INFO, "skewless"):
        ours = aggregate(df, "k", {"spread": spread()}, workers=8)
    told = [line for line in caplog.messages if line.startswith("aggregate: strategy")]
    assert [re.findall(r"strategy '([\w-]+)'", line) for line in told] == [[name]]
    others = df.groupBy("k").agg((F.max("v") - F.min("v")).alias("spread"))
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
        "aggregate: strategy 'local': the states merge, and no slot would be idle",
        "aggregate: strategy 'pkg': as given",
    ]
    plans = capsys.readouterr().out.split("== Physical Plan ==")[1:]
    assert "Python" not in plans[0]
    assert "skewless strategy 'local': the states merge" in plans[1]
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
            "capacities must be numbers of at least 0, one of them above 0 with a finite sum, not ",
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
        ({"strategy": "plains"}, "unknown strategy 'plains'; did you mean 'plain'?"),
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
