"""The task's side of routing: one call sees all records of a task, and reports once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.arrays import Floats, Ints, Keys, Workers
from skewless.parameters import require_weights
from skewless.spark.ledger.names import SOURCES, report_name
from skewless.spark.marks import marked, none_told
from skewless.spark.routing.bounded_counts import add, cost_units
from skewless.spark.routing.key_hashes import keyed_hashes
from skewless.spark.routing.plans import PlanMaker
from skewless.spark.routing.query_ledger import QueryLedger, this_task
from skewless.state import MOST_COUNTED
from skewless.strategy import Weighs


@dataclass(frozen=True)
class Router:
    """Decides the worker of every record of one task."""

    plans: PlanMaker
    query: QueryLedger
    untrusted_keys: bool = False
    tells_homes: bool = False  # lists with marks, see `marks`; the strategy must have homes

    def route(self, batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        """Yield the workers for each batch of key hashes, with weights if there are any.

        With `tells_homes`, each record has a list of numbers instead of its worker.
        """
        task = this_task()
        ledger = self.query.ledger_of(task)
        plans = replace(self.plans, seed=self.query.seed_of(task, ledger))
        if ledger is None:
            state = plans.start(task.partition)
        else:
            plans, state = plans.begin(ledger, int(task.batch or 0), task.partition)
        loads = np.zeros(plans.n_workers, np.int64)
        spent: Ints | None = None  # what keys cost by worker, where the strategy learns from keys
        costs: Floats | None = None  # what records cost by worker, where they have weights
        seen = None if ledger is None else plans.seen()
        told = none_told()
        seconds = 0.0
        # Spark cuts the records of a task into Arrow batches. A strategy that gathers needs all
        # records of the task in this micro-batch at once, so they are collected first: 8 bytes per
        # record, or 16 with untrusted keys.
        is_gathered = self.plans.strategy.traits.gathers
        together = [list(batches)] if is_gathered else ([columns] for columns in batches)
        for some in filter(None, together):
            begin = time.perf_counter()
            parts = [self._read(columns, plans.seed) for columns in some]
            keys, weights = _joined(parts)
            workers = plans.workers_of(self._decide(keys, weights, state))
            loads += np.bincount(workers, minlength=loads.size)
            if weights is not None:
                cost = np.bincount(workers, weights, loads.size).astype(np.float64)
                costs = cost if costs is None else costs + cost
            if seen is not None:
                units = None if weights is None else cost_units(weights)
                add(seen, keys, units)
                if units is not None:
                    spent = np.zeros_like(loads) if spent is None else spent
                    np.add.at(spent, workers, units)
                    np.minimum(spent, MOST_COUNTED, out=spent)
            answer = pa.array(workers)
            if self.tells_homes:
                homes = _homes(plans, keys, state)
                answer = marked(keys, workers, homes, loads.size, told)
            sizes = [part.size for part, _ in parts]
            begins = np.cumsum([0, *sizes[:-1]]).tolist()
            seconds += time.perf_counter() - begin
            yield from map(answer.slice, begins, sizes)
        if ledger is not None:
            about = {"records": int(loads.sum()), "seconds": seconds}
            report = plans.report(state, loads, seen, about, spent, costs)
            name = report_name(SOURCES, int(task.batch or 0), ledger.run, task.partition)
            ledger.write(name, report)

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
        """Return the worker of each record of one batch, as the strategy numbers them."""
        strategy = self.plans.strategy
        workers = np.full(keys.size, -1, np.int32)
        if weights is None:
            strategy.route(keys, state, workers)
        elif isinstance(strategy, Weighs):
            strategy.route_weighted(keys, weights, state, workers)
        else:
            raise ValueError(f"weights: strategy {strategy.name!r} does not weigh records")
        return workers


def _homes(plans: PlanMaker, keys: Keys, state: Any) -> Workers:
    """Return the home of each key; a wrong one could make a mark look like a record."""
    strategy: Any = plans.strategy
    homes = plans.workers_of(np.ascontiguousarray(strategy.homes(keys, state), np.int32))
    if homes.shape != keys.shape or ((homes < 0) | (homes >= plans.n_workers)).any():
        raise ValueError(
            f"strategy {strategy.name!r}: homes must return a worker from 0 to "
            f"{plans.n_workers - 1} for each key, see check_strategy"
        )
    return homes


def _joined(parts: Sequence[tuple[Keys, Floats | None]]) -> tuple[Keys, Floats | None]:
    if len(parts) == 1:
        return parts[0]
    costs = [weights for _, weights in parts if weights is not None]
    return np.concatenate([keys for keys, _ in parts]), np.concatenate(costs) if costs else None
