"""The task's side of routing: one call sees all records of a task, and reports once."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from skewless.arrays import Keys, Workers
from skewless.spark.ledger import Ledger
from skewless.spark.plans import Routing
from skewless.strategy import Rebalances, Weighs, require_weights

_SESSION_TAG = re.compile(r"spark-session-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Task:
    """Where a task stands: its partition, and its micro-batch if the query is a stream."""

    partition: int
    batch: int | None
    query: str | None
    run: str | None = None  # of the query; another one after a restart


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
    """Return what names this run of the query, and no other run.

    Spark does not tell tasks the id of the run. But each run has a session of its own, with which
    Spark tags all its jobs. The job group, which is the id of the run at first, may be changed by
    a sink of the user's.
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

    def ledger_of(self, task: Task) -> Ledger | None:
        """Return the ledger of the query that `task` belongs to, ours and nobody else's."""
        if self.ledger is None or task.batch is None:
            return None
        ledger = self.ledger.below(str(task.query)) if self.per_query else self.ledger
        ledger.claim(self.identity)
        ledger.bind(str(task.query))
        return ledger.of_run(task.run)

    def route(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """Yield the workers for each batch of key hashes, with weights if there are any."""
        task = this_task()
        ledger = self.ledger_of(task)
        if ledger is None:
            state = self.routing.start(task.partition)
        else:
            state = self.routing.resume(ledger, int(task.batch or 0), task.partition)
        loads = np.zeros(self.routing.n_workers, np.int64)
        seen: list[Keys] = []
        remembers = ledger is not None and isinstance(self.routing.strategy, Rebalances)
        seconds = 0.0
        for hashes, *weights in batches:
            begin = time.perf_counter()
            keys = hashes.to_numpy().view(np.uint64)
            workers = self._decide(keys, weights, state)
            loads += np.bincount(workers, minlength=loads.size)
            if remembers:
                seen.append(keys.copy())
            answer = pa.array(workers)
            seconds += time.perf_counter() - begin
            yield answer
        if ledger is not None:
            about = {"records": int(loads.sum()), "seconds": seconds}
            report = self.routing.report(state, loads, seen, about)
            ledger.write_report(int(task.batch or 0), task.partition, report)

    def _decide(self, keys: Keys, weights: Sequence[pa.Array], state: Any) -> Workers:
        """Return the worker of each record of one batch."""
        strategy = self.routing.strategy
        workers = np.full(keys.size, -1, np.int32)
        if not weights:
            strategy.route(keys, state, workers)
        elif isinstance(strategy, Weighs):
            costs = weights[0].to_numpy(zero_copy_only=False).astype(np.float64)
            require_weights(costs, keys.size)
            strategy.route_weighted(keys, costs, state, workers)
        else:
            raise ValueError(f"weights: strategy {strategy.name!r} does not weigh records")
        return workers
