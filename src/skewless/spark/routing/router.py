"""The task's side of routing: one call sees all records of a task, and reports once."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from skewless.arrays import Floats, Ints, Keys, Workers
from skewless.sound import MOST_COUNTED
from skewless.spark.ledger.ledger import Ledger
from skewless.spark.routing.bounded_counts import add
from skewless.spark.routing.key_hashes import keyed_hashes
from skewless.spark.routing.plans import PlanMaker, cost_units
from skewless.spark.routing.seeds import seed_of_query
from skewless.state import layout
from skewless.strategy import AnyStrategy, Rescales, Weighs, require_weights

_SESSION_TAG = re.compile(r"spark-session-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Task:
    """A task: its partition, and its micro-batch if the query is a stream."""

    partition: int
    batch: int | None
    query: str | None
    run: str | None = None  # changes with every restart
    attempt: int | None = None  # unique among all attempts of all tasks of this application


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
        context.taskAttemptId(),
    )


def _run_of(context: TaskContext) -> str | None:
    """Return the name of this run of the query; no other run has it.

    Spark does not give tasks the id of the run. But each run has its own session, and Spark tags
    all jobs of the run with that session. The job group is the id of the run too, until the user's
    `foreachBatch` sets another group.
    """
    tags = (context.getLocalProperty("spark.job.tags") or "").split(",")
    sessions = [tag for tag in tags if _SESSION_TAG.fullmatch(tag)]
    return min(sessions) if sessions else context.getLocalProperty("spark.jobGroup.id")


@dataclass(frozen=True)
class Router:
    """Decides the worker of every record of one task."""

    routing: PlanMaker
    ledger: Ledger | None
    per_query: bool  # the ledger has a folder for each query
    identity: dict[str, Any]
    keeps_seed: bool = True  # else the ledger or the id of the query gives the seed
    untrusted_keys: bool = False
    built: str = ""  # drawn when the query is built, so it differs between drivers

    def ledger_of(self, task: Task) -> Ledger | None:
        """Return the ledger of the query of `task`; raise LedgerMismatch if it is another's."""
        if self.ledger is None or task.batch is None:
            return None
        ledger = self.ledger.below(str(task.query)) if self.per_query else self.ledger
        identity = identity_for(self.identity, self.routing.strategy, ledger)
        if self.keeps_seed:
            ledger.claim(identity)
        else:  # every run of the query proposes the same seed, whichever task is first
            proposed = {**identity, "seed": seed_of_query(str(task.query))}
            ledger.claim(proposed, drawn=("seed",))
        ledger.bind(str(task.query))
        return ledger.of_run(f"{self.built}-{task.run}")

    def routing_of(self, task: Task, ledger: Ledger | None) -> PlanMaker:
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
            routing, state = routing.begin(ledger, int(task.batch or 0), task.partition)
        loads = np.zeros(self.routing.n_workers, np.int64)
        spent: Ints | None = None  # what keys cost by worker, where the strategy learns from keys
        costs: Floats | None = None  # what records cost by worker, where they have weights
        seen = None if ledger is None else routing.seen()
        seconds = 0.0
        for some in self._together(batches):
            begin = time.perf_counter()
            parts = [self._read(columns, routing.seed) for columns in some]
            keys, weights = _joined(parts)
            workers = self._decide(keys, weights, state)
            loads += np.bincount(workers, minlength=loads.size)
            if weights is not None:
                cost = np.bincount(workers, weights, loads.size).astype(np.float64)
                costs = cost if costs is None else costs + cost
            if seen is not None and weights is None:
                add(seen, keys)
            elif seen is not None and weights is not None:
                units = cost_units(weights)
                add(seen, keys, units)
                spent = np.zeros_like(loads) if spent is None else spent
                np.add.at(spent, workers, units)
                np.minimum(spent, MOST_COUNTED, out=spent)
            ends = np.cumsum([part.size for part, _ in parts])[:-1]
            answers = [pa.array(piece) for piece in np.split(workers, ends)]
            seconds += time.perf_counter() - begin
            yield from answers
        if ledger is not None:
            about = {"records": int(loads.sum()), "seconds": seconds}
            report = routing.report(state, loads, seen, about, spent, costs)
            ledger.write_report(int(task.batch or 0), task.partition, report)

    def _together(
        self, batches: Iterator[tuple[pa.Array, ...]]
    ) -> Iterator[list[tuple[pa.Array, ...]]]:
        """Yield the Arrow batches that are routed together.

        Spark cuts the records of a task into Arrow batches. A strategy that gathers needs all
        records of the task in this micro-batch at once, so they are collected first: 8 bytes per
        record, or 16 with untrusted keys.
        """
        if self.routing.strategy.traits.gathers:
            collected = list(batches)
            if collected:
                yield collected
        else:
            yield from ([columns] for columns in batches)

    def _read(self, columns: Sequence[pa.Array], seed: int) -> tuple[Keys, Floats | None]:
        """Return the keys of one batch, and what the records cost if that is known."""
        first = columns[0].to_numpy().view(np.uint64)
        others = columns[1:]
        if self.untrusted_keys:
            first = keyed_hashes(first, others[0].to_numpy().view(np.uint64), seed)
            others = others[1:]
        if not others:
            return first, None
        costs: Floats = others[0].to_numpy(zero_copy_only=False).astype(np.float64)
        require_weights(costs, first.size)
        return first, costs

    def _decide(self, keys: Keys, weights: Floats | None, state: Any) -> Workers:
        """Return the worker of each record of one batch."""
        strategy = self.routing.strategy
        workers = np.full(keys.size, -1, np.int32)
        if weights is None:
            strategy.route(keys, state, workers)
        elif isinstance(strategy, Weighs):
            strategy.route_weighted(keys, weights, state, workers)
        else:
            raise ValueError(f"weights: strategy {strategy.name!r} does not weigh records")
        return workers


def identity_for(identity: dict[str, Any], strategy: AnyStrategy, ledger: Ledger) -> dict[str, Any]:
    """Return the identity with which to claim a ledger that may have begun with other workers.

    A strategy that can rescale continues with other workers, and the ledger keeps its first number.
    """
    if "workers" not in identity or not isinstance(strategy, Rescales):
        return identity
    began = ledger.workers()
    if began is None or began == identity["workers"]:
        return identity
    return {**identity, "workers": began, **state_identity(strategy, began)}


def state_identity(strategy: AnyStrategy, n_workers: int) -> dict[str, str]:
    """Return the version of the package, and the layout of the strategy's state.

    The layout must not change while a ledger is used. The version is only information for people.
    If the arrays of a strategy change their meaning but not their layout, its `state_version` must
    change.
    """
    shape = f"{layout(strategy.start(n_workers, 0))}-{getattr(strategy, 'state_version', 1)}"
    return {"state_layout": shape, "skewless": version("skewless")}


def _joined(parts: Sequence[tuple[Keys, Floats | None]]) -> tuple[Keys, Floats | None]:
    """Return the keys and costs of some batches as those of one."""
    if len(parts) == 1:
        return parts[0]
    costs = [weights for _, weights in parts if weights is not None]
    return np.concatenate([keys for keys, _ in parts]), np.concatenate(costs) if costs else None
