"""The work of a plan: what is counted, and that counting changes no plan."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from experiments.reproduction.papers.mixed.planning import Planning, Timed, counted, reports
from skewless import registry
from skewless.strategies.mixed.readj import readjust
from skewless.strategy import Report
from skewless.workloads import FluctuatingZipf

MOVING = ["mixed", "mixed-bf", "min-table", "min-mig", "readj"]


def intervals(n_keys: int = 300) -> Iterator[Report]:
    return reports(FluctuatingZipf(n_keys=n_keys, n_records=0, n_workers=6), 1, window=3)


@pytest.mark.parametrize("name", MOVING)
def test_counting_changes_no_plan(name: str) -> None:
    plain, counting = registry.make(name), registry.make(name)
    works = counted(counting)
    states = [plain.start(6, 1), counting.start(6, 1)]
    stream = intervals()
    for _ in range(5):
        report = next(stream)
        states[0], moves = plain.rebalance(report, states[0])
        states[1], others = counting.rebalance(report, states[1])
        assert [part.tolist() for part in moves] == [part.tolist() for part in others]
    assert len(works) == 5
    assert works[0].steps > 0


def test_state_reaches_back_as_many_intervals_as_the_window_has() -> None:
    stream = intervals()
    reports = [next(stream) for _ in range(5)]
    assert np.array_equal(reports[0].state_sizes, reports[0].loads)
    last = reports[2].loads + reports[3].loads + reports[4].loads
    assert np.allclose(reports[4].state_sizes, last)  # sums in another order
    assert (np.diff(reports[0].keys.astype(object)) > 0).all()


def test_min_table_orders_and_passes_over_all_keys_once() -> None:
    strategy = registry.make("min-table", pin_giants=False, two_sided=False)
    works = counted(strategy)
    report = next(intervals(2_000))
    strategy.rebalance(report, strategy.start(6, 1))
    (work,) = works
    assert work.attempts == 1
    assert (work.ordered, work.passed) == (2_000, 2_000)
    assert 0 < work.placed < 2_000


def test_mixed_needs_a_second_order_for_its_priority() -> None:
    strategy = registry.make("mixed", pin_giants=False, two_sided=False)
    works = counted(strategy)
    strategy.rebalance(next(intervals(2_000)), strategy.start(6, 1))
    (work,) = works
    assert (work.attempts, work.ordered, work.passed) == (1, 4_000, 2_000)


def test_a_table_without_room_takes_more_attempts() -> None:
    few = Planning("mixed", {"max_entries": 20}, n_keys=500, n_intervals=3).run()
    many = Planning("mixed", {"max_entries": 3_000}, n_keys=500, n_intervals=3).run()
    assert few["attempts"] > many["attempts"] == 1.0


def test_readj_counts_every_key_of_the_giver_with_none_and_each_of_the_taker() -> None:
    # One step: worker 0 has three keys, worker 1 one; the key of 4 moves, and loads are even.
    owners = np.array([0, 0, 0, 1], np.int32)
    loads = np.array([9.0, 1.0])
    n_pairs = readjust(
        np.array([4.0, 3.0, 2.0, 1.0]),
        owners,
        loads,
        np.array([5.0, 5.0]),
        np.ones(2),
        np.empty(4, np.int64),
        np.empty(3, np.int64),
        1e-9,
    )
    assert owners.tolist() == [1, 0, 0, 1]
    assert n_pairs == 3 * (1 + 1)


def test_the_hash_makes_no_plans_and_meets_its_loads() -> None:
    row = Planning("hash", {"ring": True}, n_keys=500, f=0.0, n_intervals=2).run()
    assert "moved" not in row
    assert sum(row["average_loads"]) == pytest.approx(15)


def test_a_plan_takes_as_long_as_its_steps() -> None:
    of = {"n_keys": 500, "n_records": 5_000, "interval": 2_500, "n_workers": 4}
    given = {"of": of, "timing": {"service": 1e-3}, "n_workers": 4, "n_sources": 10, "window": 500}
    slow, fast = (
        Timed("mixed", "fluctuation", steps_per_second=rate, **given).run() for rate in (1e3, 1e5)
    )
    assert slow["seconds_per_plan"] == pytest.approx(100 * fast["seconds_per_plan"])
    assert slow["seconds_per_plan"] > 0
    assert slow["plans"] <= fast["plans"]  # no other plan is made while one is in the making
    assert Timed("hash", "fluctuation", **given).run()["seconds_per_plan"] == 0.0
