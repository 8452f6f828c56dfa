"""The task's side of routing: one call sees all records of a task, and reports once."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from skewless.arrays import Floats, Ints, Keys, Workers
from skewless.kernels.bounded_counts import add
from skewless.sound import MOST_COUNTED
from skewless.spark.ledger.ledger import Ledger
from skewless.spark.routing.key_hashes import keyed_hashes
from skewless.spark.routing.plans import Routing, cost_units
from skewless.spark.routing.seeds import seed_of_query
from skewless.strategy import Weighs, require_weights

_SESSION_TAG = re.compile(r"spark-session-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Task:
    """Where a task stands: its partition, and its micro-batch if the query is a stream."""

    partition: int
    batch: int | None
    query: str | None
    run: str | None = None  # another one after a restart


def this_task() -> Task:
    """Return what Spark says about the task that runs this."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("this runs inside a Spark task only")
    batch = context.getLocalProperty("streaming.sql.batchId")
    return Task(
        context.partitionId(),
        None if batch is None else int(batch),
        context.getLocalProperty("sql.streaming.queryId"),
        None if batch is None else _run_of(context),
    )


def _run_of(context: TaskContext) -> str | None:
    """Return a name that this run of the query has, and no other run.

    Spark does not tell tasks the id of the run. But each run has a session of its own, and Spark
    tags all its jobs with that session. The job group is the id of the run as well, until the
    user's `foreachBatch` sets a group of its own.
    """
    tags = (context.getLocalProperty("spark.job.tags") or "").split(",")
    sessions = [tag for tag in tags if _SESSION_TAG.fullmatch(tag)]
    return min(sessions) if sessions else context.getLocalProperty("spark.jobGroup.id")


@dataclass(frozen=True)
class Router:
    """Decides the worker of every record of one task."""

    routing: Routing
    ledger: Ledger | None
    per_query: bool  # the ledger has a folder for each query
    identity: dict[str, Any]
    keeps_seed: bool = True  # else a stream's ledger or its query says which one counts
    untrusted_keys: bool = False
    built: str = ""  # drawn when the query was built: another one in another driver

    def ledger_of(self, task: Task) -> Ledger | None:
        """Return the ledger of the query of `task`; that of another query is refused."""
        if self.ledger is None or task.batch is None:
            return None
        ledger = self.ledger.below(str(task.query)) if self.per_query else self.ledger
        if self.keeps_seed:
            ledger.claim(self.identity)
        else:  # every run of the query proposes the same seed, whichever task is first
            proposed = {**self.identity, "seed": seed_of_query(str(task.query))}
            ledger.claim(proposed, drawn=("seed",))
        ledger.bind(str(task.query))
        return ledger.of_run(f"{self.built}-{task.run}")

    def routing_of(self, task: Task, ledger: Ledger | None) -> Routing:
        """Return the routing with the seed that counts for all tasks, attempts and runs alike."""
        if self.keeps_seed:
            return self.routing
        kept = None if ledger is None else ledger.seed()
        if kept is None and task.query is not None:
            kept = seed_of_query(task.query)
        return self.routing if kept is None else replace(self.routing, seed=kept)

    def route(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """Yield the workers for each batch of key hashes, with weights if there are any."""
        task = this_task()
        ledger = self.ledger_of(task)
        routing = self.routing_of(task, ledger)
        if ledger is None:
            state = routing.start(task.partition)
        else:
            state = routing.resume(ledger, int(task.batch or 0), task.partition)
        loads = np.zeros(self.routing.n_workers, np.int64)
        spent: Ints | None = None  # what the records of each worker cost, where that is known
        seen = None if ledger is None else routing.seen()
        seconds = 0.0
        for columns in batches:
            begin = time.perf_counter()
            keys, weights = self._read(columns, routing.seed)
            costs = _costs(weights, keys.size)
            workers = self._decide(keys, costs, state)
            loads += np.bincount(workers, minlength=loads.size)
            if seen is not None and costs is None:
                add(seen, keys)
            elif seen is not None and costs is not None:
                units = cost_units(costs)
                add(seen, keys, units)
                spent = np.zeros_like(loads) if spent is None else spent
                np.add.at(spent, workers, units)
                np.minimum(spent, MOST_COUNTED, out=spent)
            answer = pa.array(workers)
            seconds += time.perf_counter() - begin
            yield answer
        if ledger is not None:
            about = {"records": int(loads.sum()), "seconds": seconds}
            report = routing.report(state, loads, seen, about, spent)
            ledger.write_report(int(task.batch or 0), task.partition, report)

    def _read(self, columns: Sequence[pa.Array], seed: int) -> tuple[Keys, Sequence[pa.Array]]:
        """Return the keys of one batch, and the columns behind them."""
        first = columns[0].to_numpy().view(np.uint64)
        if not self.untrusted_keys:
            return first, columns[1:]
        return keyed_hashes(first, columns[1].to_numpy().view(np.uint64), seed), columns[2:]

    def _decide(self, keys: Keys, costs: Floats | None, state: Any) -> Workers:
        """Return the worker of each record of one batch."""
        strategy = self.routing.strategy
        workers = np.full(keys.size, -1, np.int32)
        if costs is None:
            strategy.route(keys, state, workers)
        elif isinstance(strategy, Weighs):
            strategy.route_weighted(keys, costs, state, workers)
        else:
            raise ValueError(f"weights: strategy {strategy.name!r} does not weigh records")
        return workers


def _costs(weights: Sequence[pa.Array], n_records: int) -> Floats | None:
    """Return what each record of one batch costs, if there is a column that says so."""
    if not weights:
        return None
    costs: Floats = weights[0].to_numpy(zero_copy_only=False).astype(np.float64)
    require_weights(costs, n_records)
    return costs
