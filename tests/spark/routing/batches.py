"""Test support: micro-batches of a query, without Spark."""

from __future__ import annotations

from typing import Any

import numpy as np

from skewless.arrays import Ints, Keys, Workers
from skewless.spark.ledger.ledger import Ledger
from skewless.spark.routing.bounded_counts import add
from skewless.spark.routing.plans import PlanMaker
from spark.ledger.entries import write_report


def zipf(n_records: int, seed: Any, z: float = 1.4) -> Keys:
    uniform = 1.0 - np.random.default_rng(seed).random(n_records)
    return np.minimum(uniform ** (1 / (1 - z)), 2.0**40).astype(np.uint64)


def run_task(routing: PlanMaker, ledger: Ledger, batch: int, source: int, keys: Keys) -> Workers:
    """Do what a task does: begin, route, report."""
    now, state = routing.begin(ledger, batch, source)
    workers = np.full(keys.size, -1, np.int32)
    now.strategy.route(keys, state, workers)
    workers = now.workers_of(workers)
    assert keys.size == 0 or 0 <= workers.min() <= workers.max() < now.n_workers
    seen = now.seen()
    if seen is not None:
        add(seen, keys)
    loads = np.bincount(workers, minlength=now.n_workers)
    write_report(ledger, batch, source, now.report(state, loads, seen, {}))
    return workers


def run_batch(
    routing: PlanMaker, ledger: Ledger, batch: int, n_sources: int = 3, n_records: int = 400
) -> Ints:
    """Run the tasks of a batch; return the loads of the workers."""
    n_workers = routing.begin(ledger, batch, 0)[0].n_workers
    loads = np.zeros(n_workers, np.int64)
    for source in range(n_sources):
        out = run_task(routing, ledger, batch, source, zipf(n_records, [batch, source]))
        loads += np.bincount(out, minlength=n_workers)
    return loads
