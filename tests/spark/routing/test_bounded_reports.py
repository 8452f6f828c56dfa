"""Reports name the heaviest keys; what they hold, and what a router remembers, is bounded."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from skewless.spark.ledger.files import to_bytes
from skewless.spark.ledger.ledger import Ledger
from skewless.spark.routing import plans
from skewless.spark.routing.bounded_counts import add
from skewless.spark.routing.plans import PlanMaker
from skewless.state import state_bytes
from skewless.strategies.cascade import Cascade
from skewless.strategies.mixed.mixed import Mixed
from skewless.strategy import Report
from spark.ledger.entries import read_reports, write_report
from spark.routing.source_tasks import (
    N_RECORDS,
    N_SOURCES,
    N_WORKERS,
    SEED,
    keys_of,
    route,
    run_task,
)


class Watching(Mixed):
    """Mixed that keeps the reports which it was given."""

    reports: ClassVar[list[Report]] = []

    def rebalance(self, report: Report, state: Any) -> Any:
        self.reports.append(report)
        return super().rebalance(report, state)


def test_a_report_names_the_heaviest_keys_and_the_rest_is_counted_by_worker(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "REPORTED_KEYS", 8)
    monkeypatch.setattr(plans, "_PLANNED_KEYS", 8)
    monkeypatch.setattr(Watching, "reports", [])
    routing = PlanMaker(Watching(), N_WORKERS, SEED)
    workers = [run_task(routing, ledger, 0, source) for source in range(N_SOURCES)]
    told = read_reports(ledger, 0)
    assert all(report.arrays["keys"].size <= 8 for report in told.values())
    routing.begin(ledger, 1, 0)
    (report,) = Watching.reports
    assert 0 < report.keys.size <= 16
    assert report.rest is not None
    owners = route(routing.strategy, report.keys, routing.start(0))
    loads = np.bincount(owners, report.loads, N_WORKERS) + report.rest
    np.testing.assert_array_equal(loads, np.bincount(np.concatenate(workers), minlength=N_WORKERS))
    exact = Counter(np.concatenate([keys_of(0, source) for source in range(N_SOURCES)]).tolist())
    for key, load in zip(report.keys.tolist(), report.loads.tolist(), strict=True):
        assert load <= exact[key]
    heaviest_key = max(exact, key=lambda key: exact[key])
    assert heaviest_key in report.keys


def test_a_report_that_names_every_key_has_no_rest(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watching, "reports", [])
    routing = PlanMaker(Watching(), N_WORKERS, SEED)
    for source in range(N_SOURCES):
        run_task(routing, ledger, 0, source)
    routing.begin(ledger, 1, 0)
    (report,) = Watching.reports
    assert report.rest is None
    assert report.loads.sum() == N_SOURCES * N_RECORDS


def test_what_a_router_remembers_of_keys_is_bounded() -> None:
    routing = PlanMaker(Mixed(), N_WORKERS, SEED)
    seen = routing.seen()
    assert seen is not None
    before = state_bytes(seen)
    for part in range(10):
        add(seen, np.arange(part * 20_000, (part + 1) * 20_000, dtype=np.uint64))
    assert state_bytes(seen) == before < 5e6
    report = routing.report(None, np.zeros(N_WORKERS, np.int64), seen, {})
    assert len(to_bytes(report)) < 16 * plans.REPORTED_KEYS + 10_000
    assert PlanMaker(Cascade(), N_WORKERS, SEED).seen() is None


def test_two_hundred_sources_and_a_thousand_workers_stay_below_200_mb_a_batch(
    ledger: Ledger,
) -> None:
    n_workers = 1_000
    routing = PlanMaker(Cascade(), n_workers, SEED)
    rng = np.random.default_rng(0)
    for source in range(2):
        state = routing.begin(ledger, 0, source)[1]
        # Many keys of little weight, so that every place of the counters is taken.
        keys = rng.integers(0, 1 << 60, 400_000).astype(np.uint64)
        loads = np.bincount(route(routing.strategy, keys, state), minlength=n_workers)
        report = routing.report(state, loads, None, {})
        write_report(ledger, 0, source, report)
    plan = routing.next_plan(ledger, 1)
    # Each source writes its report, one task reads all of them, and every task reads the plan.
    assert 200 * (2 * len(to_bytes(report)) + len(to_bytes(plan))) < 200e6
