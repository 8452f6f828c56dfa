"""Test support: tasks of sources with a ledger, and what they read."""

from __future__ import annotations

from typing import Any

import numpy as np

from skewless.arrays import Keys, Workers
from skewless.simulator.syncing import merge_and_fork
from skewless.spark.ledger.ledger import Ledger
from skewless.spark.routing.bounded_counts import add
from skewless.spark.routing.plans import PlanMaker
from skewless.state import copy_state, named_arrays
from skewless.strategy import Merges, Rebalances, Report

N_WORKERS, SEED, N_SOURCES, N_RECORDS = 6, 11, 3, 400


def keys_of(batch: int, source: int) -> Keys:
    """Return the records that a source reads in a batch: some keys are hot, others come and go.

    None is so hot that it alone is above a worker's share: `mixed` would then move nothing.
    """
    rng = np.random.default_rng([batch, source])
    return (rng.integers(0, 60, N_RECORDS) ** 2 // 60 + 20 * (batch // 2)).astype(np.uint64)


def route(strategy: Any, keys: Keys, state: Any) -> Workers:
    out = np.full(keys.size, -1, np.int32)
    strategy.route(keys, state, out)
    return out


def run_task(
    routing: PlanMaker, ledger: Ledger, batch: int, source: int, run: str | None = None
) -> Workers:
    """Do what a task does: resume, route, report."""
    ledger = ledger.of_run(run)
    state = routing.begin(ledger, batch, source)[1]
    keys = keys_of(batch, source)
    workers = route(routing.strategy, keys, state)
    loads = np.bincount(workers, minlength=routing.n_workers)
    seen = routing.seen()
    if seen is not None:
        add(seen, keys)
    ledger.write_report(batch, source, routing.report(state, loads, seen, {}))
    return workers


def simulated(strategy: Any, n_batches: int) -> dict[tuple[int, int], Workers]:
    """Return the workers of all records, with states handed on in memory.

    Spark's micro-batches begin with idle workers, and loads of few records differ by chance.
    """
    states = [strategy.start(N_WORKERS, SEED, source=s) for s in range(N_SOURCES)]
    table = strategy.start(N_WORKERS, SEED, source=0)
    found = {}
    for batch in range(n_batches):
        for source, state in enumerate(states):
            found[batch, source] = route(strategy, keys_of(batch, source), state)
        if isinstance(strategy, Rebalances):
            keys = np.concatenate([keys_of(batch, source) for source in range(N_SOURCES)])
            distinct, counts = np.unique(keys, return_counts=True)
            noise = (N_SOURCES * N_RECORDS / N_WORKERS) ** -0.5
            loads, sizes = counts.astype(np.float64), np.ones(distinct.size)
            report = Report(distinct, loads, sizes, noise=noise)
            table, _ = strategy.rebalance(report, table)
            states = [copy_state(table) for _ in states]
        elif isinstance(strategy, Merges):
            states = merge_and_fork(strategy, states)
            if hasattr(strategy, "waiting"):
                for source, state in enumerate(states):
                    idle = strategy.start(N_WORKERS, SEED, source=source)
                    states[source] = strategy.fork(state, idle, source)
    return found


def same(one: Any, other: Any) -> bool:
    pairs = zip(named_arrays(one), named_arrays(other), strict=True)
    return all(a.tobytes() == b.tobytes() for (_, a), (_, b) in pairs)
