"""What a function costs by record and by key: set-up and batches are told apart."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from skewless.diagnosis.costs import Costs
from skewless.spark.diagnosis import measuring
from skewless.spark.diagnosis.hot_keys import hot_keys
from skewless.spark.diagnosis.measuring import Times, costs_of, time_work


class Clock:
    """Time that only the function under test lets pass, so that results are exact."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(measuring, "time", clock)
    return clock


def costing(
    clock: Clock,
    *,
    set_up: float = 0.0,
    batch: float = 0.0,
    record: float = 0.0,
    key: float = 0.0,
    kept: set[int] | None = None,
    sizes: list[int] | None = None,
    is_eager: bool = False,
) -> Callable[..., Any]:
    """Return a function that takes so long for each of these; keys may be kept between runs."""

    def work(batches: Any) -> Any:
        clock.now += set_up
        loaded = set() if kept is None else kept
        for one in list(batches) if is_eager else batches:
            if sizes is not None:
                sizes.append(one.num_rows)
            keys = set(one.column("k").to_pylist())
            clock.now += batch + record * one.num_rows + key * len(keys - loaded)
            loaded |= keys
            yield one

    return work


def measured(
    work: Any, n_light: int = 220, n_heavy: int = 2_000, batch_size: int = 10_000
) -> Costs:
    light = pa.table({"k": np.arange(100, 100 + n_light)})
    heavy = pa.table({"k": np.arange(n_heavy) % 5})
    return costs_of(time_work(work, light, heavy, batch_size), heavy.column("k"))


def test_set_up_is_no_cost_of_a_key(clock: Clock) -> None:
    found = measured(costing(clock, set_up=0.2, record=1e-4))
    assert found == Costs(pytest.approx(1e-4), 0.0, measured=True)


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("set_up", [0.0, 0.2, 30.0])
def test_both_costs_are_found_beside_a_set_up(clock: Clock, set_up: float, keeps: bool) -> None:
    kept: set[int] | None = set() if keeps else None
    found = measured(costing(clock, set_up=set_up, record=1e-4, key=1e-2, kept=kept))
    assert found.per_record == pytest.approx(1e-4, rel=0.02)
    assert found.per_pair == pytest.approx(1e-2, rel=0.02)


def test_a_call_for_each_batch_is_shared_by_the_records_of_sparks_batches(clock: Clock) -> None:
    sizes: list[int] = []
    found = measured(costing(clock, batch=2e-3, sizes=sizes))
    # The batch of the run that is taken off is missing: four of five are counted.
    assert found == Costs(pytest.approx(0.8 * 2e-7), 0.0, measured=True)
    assert sizes[-5:] == [10_000] * 5
    small = measured(costing(clock, batch=2e-3, sizes=sizes), batch_size=100)
    assert max(sizes[-5:]) == 100
    assert small.per_record == pytest.approx(0.8 * 2e-5, rel=0.01)


@pytest.mark.parametrize("is_eager", [False, True])
def test_slow_work_gets_smaller_batches_and_the_time_is_bounded(
    clock: Clock, is_eager: bool
) -> None:
    sizes: list[int] = []
    found = measured(costing(clock, record=0.02, sizes=sizes, is_eager=is_eager))
    assert max(sizes) < 10_000
    # A function that reads all before it begins gets 2,000 records, whatever they cost.
    assert clock.now < (50.0 if is_eager else 25.0)
    assert found == Costs(pytest.approx(0.02), pytest.approx(0.0, abs=1e-9), measured=True)


@pytest.mark.parametrize("n_light", [0, 3, 4, 19, 40])
@pytest.mark.parametrize("n_heavy", [1, 3, 2_000])
def test_few_keys_and_few_records_are_enough(clock: Clock, n_light: int, n_heavy: int) -> None:
    found = measured(costing(clock, record=1e-3, set_up=0.1), n_light, n_heavy)
    assert found == Costs(pytest.approx(1e-3), pytest.approx(0.0, abs=1e-9), measured=True)
    if n_light >= measuring.LEAST_LIGHT:
        with_keys = measured(costing(clock, record=1e-3, key=0.1), n_light, n_heavy)
        assert with_keys.per_pair == pytest.approx(0.1, rel=0.02)


def test_no_records_cost_nothing() -> None:
    empty = pa.table({"k": pa.array([], pa.int64())})
    times = time_work(iter, empty, empty, 10)
    assert costs_of(times, empty.column("k")) == Costs(0.0, 0.0, measured=True)


def test_only_keys_that_are_there_are_counted() -> None:
    # 2,000 records of one key, though five are heavy: 0.1 s is the cost of the records.
    times = Times(100, 100 * (1e-4 + 1e-2), 1_999, 1_999 * 1e-4, 0.0)
    found = costs_of(times, pa.chunked_array([[7] * 2_000]))
    assert found == Costs(pytest.approx(1e-4), pytest.approx(1e-2), measured=True)
    # Of those that come later than the last record that was given, nothing is known.
    late = pa.chunked_array([[7] * 50, [8] * 50])
    assert costs_of(Times(10, 1.0, 49, 0.049, 0.0), late).per_record == pytest.approx(1e-3)


def test_what_runs_differ_by_is_no_cost_of_a_key() -> None:
    keys = pa.chunked_array([[7] * 1_001])
    assert costs_of(Times(100, 0.11, 1_000, 1.0, 0.02), keys).per_pair == 0.0
    assert costs_of(Times(100, 0.11, 1_000, 1.0, 0.005), keys).per_pair > 0.0


@pytest.mark.slow
@pytest.mark.spark
def test_a_connection_is_not_charged_to_keys_on_spark(spark: Any) -> None:
    def connects(batches: Any) -> Any:
        time.sleep(0.2)
        for batch in batches:
            time.sleep(1e-4 * batch.num_rows)
            yield batch

    keys = np.where(np.arange(4_000) % 2 == 0, 0, np.arange(4_000) % 800)
    df = spark.createDataFrame(pa.table({"k": keys, "v": np.ones(4_000)}))
    found = hot_keys(df, "k", workers=4, strategies="hash", work=connects)
    assert found.costs is not None
    # Set-up charged to keys would be 0.2 s / 200 keys; machines that are busy sleep longer.
    assert found.costs.per_pair < 3e-4
    assert 9e-5 < found.costs.per_record < 3e-4


@pytest.mark.spark
def test_more_tasks_at_a_time_than_cores_are_reported(
    spark: Any, monkeypatch: Any, caplog: Any
) -> None:
    asked: dict[str, Any] = {"workers": 2, "strategies": "hash"}
    for cores, said in ((2, 0), (1, 1)):
        monkeypatch.setattr("skewless.spark.diagnosis.hot_keys._cores", lambda n=cores: n)
        assert hot_keys(spark.range(10), "id", **asked).slots == 2
        assert caplog.text.count("2 tasks at the same time on 1 cores") == said
    hot_keys(spark.range(10), "id", slots=2, **asked)  # the user has said so
    assert len(caplog.records) == 1


def test_two_measurements_give_the_two_costs() -> None:
    for per_record, per_pair in ((1e-4, 1e-2), (1e-3, 0.0), (0.0, 1e-2)):
        few_seconds = 1_000 * per_record + 5 * per_pair
        times = Times(100, 100 * (per_record + per_pair), 1_000, few_seconds, 0.0)
        found = costs_of(times, pa.chunked_array([[7, *range(5), *[0] * 995]]))
        assert found.per_record == pytest.approx(per_record, rel=0.01, abs=1e-12)
        assert found.per_pair == pytest.approx(per_pair, rel=0.01, abs=1e-12)
    # Without two kinds of measurement there is one cost.
    keys = pa.chunked_array([[7, *[0] * 100]])
    assert costs_of(Times(0, 0.0, 100, 1.0, 0.0), keys) == Costs(0.01, 0.0, measured=True)
    assert costs_of(Times(0, 0.0, 0, 0.0, 0.0), keys) == Costs(0.0, 0.0, measured=True)
