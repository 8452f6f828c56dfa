"""Sources that learn together through the ledger, with the code of a Spark task but without Spark.

Batches are uneven, and a source without records in a batch has no task, no report, no say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from benchmarks.on_spark import learning_together
from lanes import needs_a_long_stream
from skewless import registry
from skewless.arrays import Keys, Workers
from skewless.simulator.syncing import MicroBatches
from skewless.spark.ledger.ledger import Ledger
from skewless.spark.routing import router as routers
from skewless.spark.routing.plans import PlanMaker
from skewless.spark.routing.query_ledger import QueryLedger, Task
from skewless.spark.routing.router import Router
from skewless.strategies import Dalton, PdStream, Prompt, PStream
from strategies.streams import imbalance, routed, skewed
from strategies.together import UNEVEN, replicas, uneven_batches

N_WORKERS, N_SOURCES, SEED = 32, 8, 3


def arrow(keys: Keys, size: int) -> Iterator[tuple[pa.Array, ...]]:
    """Yield the records as Spark does: in batches of at most `size`."""
    for begin in range(0, keys.size, size):
        yield (pa.array(keys[begin : begin + size].view(np.int64)),)


def run_task(router: Router, task: Task, keys: Keys, monkeypatch: Any, size: int) -> Workers:
    monkeypatch.setattr(routers, "this_task", lambda: task)
    answers = [answer.to_numpy() for answer in router.route(arrow(keys, size))]
    assert all(answer.size <= size for answer in answers)
    return np.concatenate(answers)


def router_of(strategy: Any, folder: Path | None) -> Router:
    ledger = None if folder is None else Ledger(str(folder))
    return Router(PlanMaker(strategy, N_WORKERS, SEED), QueryLedger({"seed": SEED}, ledger))


def through_the_ledger(
    strategy: Any, keys: Keys, sizes: Sequence[int], folder: Path, monkeypatch: Any
) -> Workers:
    """Route all records in micro-batches, each by the tasks of some sources."""
    router = router_of(strategy, folder)
    workers = np.full(keys.size, -1, np.int32)
    for batch, parts in enumerate(uneven_batches(keys.size, sizes, N_SOURCES)):
        for source, records in enumerate(parts):
            if records.size:
                task = Task(source, batch, "query", "run")
                found = run_task(router, task, keys[records], monkeypatch, 10_000)
                workers[records] = found
    return workers


def one_and_eight(strategy: Any, keys: Keys, folder: Path, monkeypatch: Any) -> np.ndarray:
    """Return imbalance and replicas of one source, and those of eight that merge."""
    one = routed(strategy, keys, N_WORKERS, SEED)
    eight = through_the_ledger(strategy, keys, UNEVEN, folder, monkeypatch)
    return np.array([(imbalance(w, N_WORKERS), replicas(keys, w)) for w in (one, eight)])


@pytest.mark.slow
@needs_a_long_stream
def test_eight_sources_learn_as_one_by_dalton(tmp_path, monkeypatch):
    # A million records: the first batches, of which each source learns from an eighth before it
    # hears of the others, are then a small part.
    keys = skewed(1_000_000, 1.4, n_keys=100_000)
    one, eight = one_and_eight(Dalton(), keys, tmp_path, monkeypatch)
    assert (eight <= 1.1 * one).all()


@pytest.mark.slow
@needs_a_long_stream
def test_eight_sources_learn_as_one_by_pstream(tmp_path, monkeypatch):
    # One run is one draw of the coins, and so is its imbalance: the mean of some streams counts.
    found = [
        one_and_eight(
            PStream(f=0.02),
            skewed(300_000, 1.4, n_keys=100_000, seed=seed),
            tmp_path / str(seed),
            monkeypatch,
        )
        for seed in range(8)
    ]
    one, eight = np.mean(found, axis=0)
    # By these streams, eight sources have 0.98 times the replicas of one, and 1.11 times its
    # imbalance: they deal out fewer hot records.
    assert (eight <= 1.15 * one).all()


@needs_a_long_stream
def test_pd_stream_is_balanced_by_eight_sources(tmp_path, monkeypatch):
    keys = skewed(200_000, 1.4, n_keys=100_000)
    workers = through_the_ledger(PdStream(), keys, UNEVEN, tmp_path, monkeypatch)
    assert imbalance(workers, N_WORKERS) <= 0.01


@pytest.mark.parametrize("name", [*learning_together.systems(), *learning_together.MOVING])
def test_sources_that_come_and_go_route_as_the_checks_of_merging_do(name, tmp_path, monkeypatch):
    """So what the checks find out without Spark is true of a query, too."""
    strategy = registry.make(name)
    router = router_of(strategy, tmp_path)
    sources = MicroBatches(strategy, N_WORKERS, SEED)
    for batch, sizes in enumerate([[700] * 3, [20], [5], [300] * 4, [0, 90], [400] * 3]):
        parts = [skewed(size, seed=10 * batch + source) for source, size in enumerate(sizes)]
        expected = sources.route(parts)
        for source, keys in enumerate(parts):
            if keys.size:
                task = Task(source, batch, "query", "run")
                found = run_task(router, task, keys, monkeypatch, 10_000)
                np.testing.assert_array_equal(found, expected[source])


@pytest.mark.parametrize("strategy", [Dalton(by_batch=True), Prompt()], ids=["dalton", "prompt"])
def test_a_batch_is_a_micro_batch_however_arrow_cuts_it(strategy, monkeypatch):
    keys = skewed(5_000)
    task = Task(0, None, None)
    whole = run_task(router_of(strategy, None), task, keys, monkeypatch, 10_000)
    pieces = run_task(router_of(strategy, None), task, keys, monkeypatch, 700)
    np.testing.assert_array_equal(whole, pieces)
    np.testing.assert_array_equal(whole, routed(strategy, keys, N_WORKERS, SEED))
