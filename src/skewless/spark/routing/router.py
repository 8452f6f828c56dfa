"""The task's side of routing: one call sees all records of a task, and reports once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from skewless.arrays import Keys, Workers
from skewless.kernels.bounded_counts import add
from skewless.spark.ledger.ledger import Ledger
from skewless.spark.routing.key_hashes import keyed_hashes
from skewless.spark.routing.plans import Routing
from skewless.spark.routing.seeds import seed_of_query
from skewless.strategy import Weighs, require_weights


@dataclass(frozen=True)
class Task:
    """Where a task stands: its partition, and its micro-batch if the query is a stream."""

    partition: int
    batch: int | None
    query: str | None
    run: str | None = None  # the group of its jobs: another one after a restart


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
        # The jobs of a stream are a group by the id of its run. A `foreachBatch` may set a group of
        # its own; then only `Router.built` tells the runs apart.
        None if batch is None else context.getLocalProperty("spark.jobGroup.id"),
    )


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
        """Return the ledger of the query that `task` belongs to, ours and nobody else's."""
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
        seen = None if ledger is None else routing.seen()
        seconds = 0.0
        for some in self._together(batches):
            begin = time.perf_counter()
            parts = [self._read(columns, routing.seed) for columns in some]
            keys, weights = _joined(parts)
            workers = self._decide(keys, weights, state)
            loads += np.bincount(workers, minlength=loads.size)
            if seen is not None:
                add(seen, keys)
            ends = np.cumsum([part.size for part, _ in parts])[:-1]
            answers = [pa.array(piece) for piece in np.split(workers, ends)]
            seconds += time.perf_counter() - begin
            yield from answers
        if ledger is not None:
            about = {"records": int(loads.sum()), "seconds": seconds}
            report = routing.report(state, loads, seen, about)
            ledger.write_report(int(task.batch or 0), task.partition, report)

    def _together(
        self, batches: Iterator[tuple[pa.Array, ...]]
    ) -> Iterator[list[tuple[pa.Array, ...]]]:
        """Yield the batches of Arrow that are decided together.

        Spark cuts the records of a task into batches of Arrow. A strategy that decides for a whole
        batch means all records of the task in this micro-batch, so they are collected first: 8
        bytes per record, or 16 with untrusted keys.
        """
        if self.routing.strategy.traits.decides == "batch":
            collected = list(batches)
            if collected:
                yield collected
        else:
            yield from ([columns] for columns in batches)

    def _read(self, columns: Sequence[pa.Array], seed: int) -> tuple[Keys, Sequence[pa.Array]]:
        """Return the keys of one batch, and the columns behind them."""
        first = columns[0].to_numpy().view(np.uint64)
        if not self.untrusted_keys:
            return first, columns[1:]
        return keyed_hashes(first, columns[1].to_numpy().view(np.uint64), seed), columns[2:]

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


def _joined(
    parts: Sequence[tuple[Keys, Sequence[pa.Array]]],
) -> tuple[Keys, Sequence[pa.Array]]:
    """Return the keys of some batches, and the columns behind them, as those of one."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*(behind for _, behind in parts), strict=True)
    behind = [pa.concat_arrays(list(column)) for column in columns]
    return np.concatenate([keys for keys, _ in parts]), behind
