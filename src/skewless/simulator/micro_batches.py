"""Micro-batches whose sources share what they learn as on Spark, without Spark.

The sources with records in a micro-batch route them and report. The merge of their reports is the
plan of the next one. Other sources have no part in it. When they have records again, they continue
from the newest plan and their own last report.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skewless.arrays import Keys, Workers
from skewless.simulator.syncing import take_over
from skewless.state import copy_state
from skewless.strategy import Condenses


class MicroBatches:
    """The sources of a query; their number may change from one micro-batch to the next."""

    def __init__(self, strategy: Any, n_workers: int, seed: int, *, merging: bool = True) -> None:
        """Begin before the first micro-batch. Without `merging`, sources continue alone."""
        self.reports: dict[int, Any] = {}  # the last one of each source
        self.plan: Any = None
        self._strategy = strategy
        self._n_workers = n_workers
        self._seed = seed
        self._merging = merging

    def state(self, source: int) -> Any:
        """Build the state with which a source begins the next micro-batch."""
        if self.plan is not None and isinstance(self._strategy, Condenses):
            return copy_state(self.plan)
        own = self.reports.get(source)
        # Workers are idle when a micro-batch begins, so a backlog that was inferred is over.
        if own is None or (self.plan is not None and hasattr(self._strategy, "waiting")):
            own = self._strategy.start(self._n_workers, self._seed, source=source)
        return own if self.plan is None else take_over(self._strategy, self.plan, own, source)

    def route(self, batch: Sequence[Keys]) -> list[Workers]:
        """Route a micro-batch, in which source s has the records of `batch[s]`, and merge."""
        found = []
        reporting = {source: self.state(source) for source, keys in enumerate(batch) if keys.size}
        for source, keys in enumerate(batch):
            found.append(np.full(keys.size, -1, np.int32))
            if source in reporting:
                self._strategy.route(keys, reporting[source], found[-1])
        self.reports |= reporting
        if self._merging and reporting:
            self.plan = self._merged(list(reporting.values()))
        return found

    def _merged(self, states: list[Any]) -> Any:
        strategy = self._strategy
        if not isinstance(strategy, Condenses):
            return strategy.merge(states)
        parts = [strategy.condense(state) for state in states]
        fresh = self._strategy.start(self._n_workers, self._seed)
        return strategy.merge_condensed(parts, fresh)
