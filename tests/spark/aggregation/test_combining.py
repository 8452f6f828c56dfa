"""What a worker of `aggregate` sends and reports is the same, whatever attempts there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from skewless import aggregations as aggs
from skewless.spark.aggregation.combining import Combiner
from skewless.spark.aggregation.partials import Packing, Partials
from skewless.spark.ledger.ledger import Entry, Ledger
from skewless.spark.routing.plans import PlanMaker
from skewless.spark.routing.query_ledger import QueryLedger, Task
from skewless.strategies import Fish
from spark.ledger.entries import read_workers

RECORDS = pa.table({"k": ["a", "b", "a"], "v": [1, 2, 3]})
N_WORKERS = 2
MODULE = "skewless.spark.aggregation.combining"


@pytest.fixture
def query(tmp_path: Path) -> QueryLedger:
    """Return the ledger of a strategy whose plans depend on the seconds of workers."""
    identity = {"strategy": "fish", "workers": N_WORKERS, "seed": 0, "key": "k"}
    ledger = Ledger(str(tmp_path / "ledger"))
    return QueryLedger(identity, ledger, strategy=Fish(), built="built")


def attempt(
    query: QueryLedger,
    monkeypatch: pytest.MonkeyPatch,
    worker: int,
    seconds: float,
    run: str = "run",
) -> list[Any]:
    """Do what one attempt of a task does, as if it had taken so long; return its results."""
    partials = Partials(RECORDS.schema, ("k",), {"total": aggs.sum("v")})
    times = iter([0.0, seconds])
    task = Task(worker, 0, "query", run)
    with monkeypatch.context() as patched:
        patched.setattr(f"{MODULE}.this_task", lambda: task)
        patched.setattr(f"{MODULE}.time.perf_counter", lambda: next(times, seconds))
        batches = Combiner(partials, query).combine(iter(RECORDS.to_batches()))
        return [row for batch in batches for row in batch.to_pylist()]


def seconds_in(plan: Entry) -> list[float]:
    """Return the seconds of the last batch of each worker."""
    return [float(seconds[0]) for seconds in np.split(plan.arrays["last_seconds"], N_WORKERS)]


def test_the_report_of_the_first_attempt_is_kept(
    query: QueryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plans with measured speeds have the workers' seconds, which differ between attempts."""
    first = [attempt(query, monkeypatch, worker, 1.0) for worker in range(N_WORKERS)]
    assert query.ledger is not None
    ledger = query.ledger.of_run("built-run")
    for worker in range(N_WORKERS):
        assert read_workers(ledger, 0)[worker].about["seconds"] == 1.0
    plans = PlanMaker(Fish(), N_WORKERS, measures_speeds=True)
    plans.begin(ledger, 0, 0)
    plan = plans.next_plan(ledger, 1)
    assert seconds_in(plan) == [1.0, 1.0]
    assert attempt(query, monkeypatch, 1, 7.0) == first[1]  # a speculative copy, late
    assert read_workers(ledger, 0)[1].about["seconds"] == 1.0
    assert seconds_in(plans.next_plan(ledger, 1)) == [1.0, 1.0]


def test_each_run_has_reports_of_its_own(
    query: QueryLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt(query, monkeypatch, 0, 1.0)
    attempt(query, monkeypatch, 0, 7.0, run="after a restart")
    assert query.ledger is not None
    ledger = query.ledger.of_run("built-after a restart")
    assert read_workers(ledger, 0)[0].about["seconds"] == 7.0


@pytest.mark.parametrize("n_slots", [1, 5])
def test_records_in_another_order_give_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch, n_slots: int
) -> None:
    """A task that is tried again gets its records in another order, and Spark compares bytes."""
    rng = np.random.default_rng(0)
    keys = [None if key == 0 else f"key {key}" for key in rng.integers(0, 60, 400).tolist()]
    records = pa.table({"k": keys, "v": rng.integers(0, 9, 400)})
    partials = Partials(records.schema, ("k",), {"n": aggs.count(), "total": aggs.sum("v")})
    combiner = Combiner(partials, packing=Packing(partials, np.arange(n_slots)))
    monkeypatch.setattr(f"{MODULE}.this_task", lambda: Task(0, None, "", ""))

    def sent(order: Any) -> set[tuple[Any, ...]]:
        batches = records.take(pa.array(order)).to_batches(max_chunksize=37)
        found = combiner.combine(iter(batches))
        return {tuple(row.values()) for batch in found for row in batch.to_pylist()}

    first = sent(np.arange(400))
    assert len(first) == n_slots
    for _ in range(3):
        assert sent(rng.permutation(400)) == first
