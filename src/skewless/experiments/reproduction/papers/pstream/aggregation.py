"""A cell that counts what must be merged: results of keys that several workers have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skewless import registry, workloads
from skewless.experiments.tables import Row
from skewless.strategy import Rebalances


@dataclass(frozen=True)
class Aggregation:
    """One strategy with one source on one stream, whose results are merged after each window.

    With `forwarding`, a result is final where one worker has all records of its key; others are
    partial and go to the reducer of their key. Without it, a worker cannot know that it has all
    records of a key, so all results are partial. Reducers share the partial results evenly.

    Its row has, per record: the partial results, the part of the records whose key has any, and
    the mean time that a record waits for the merge of its key, with `merge` seconds per result.
    """

    strategy: str
    workload: str
    of: Mapping[str, Any] = field(default_factory=dict)
    n_workers: int = 16
    window: int = 10_000
    forwarding: bool = True
    merge: float = 1e-4
    reducers: int = 64
    seed: int = 1

    def run(self) -> Row:
        """Route, and count."""
        strategy: Any = registry.make(self.strategy)
        if isinstance(strategy, Rebalances):
            raise ValueError(f"{self.strategy} moves keys: it has no partial results")
        keys = np.concatenate(list(workloads.make(self.workload, **self.of).chunks(self.seed)))
        workers = np.empty(keys.size, np.int32)
        strategy.route(keys, strategy.start(self.n_workers, self.seed), workers)
        n_partial = n_waiting = 0
        seconds = 0.0
        for begin in range(0, keys.size, self.window):
            part = slice(begin, begin + self.window)
            _, index = np.unique(keys[part], return_inverse=True)
            pairs = np.unique(index * np.int64(self.n_workers) + workers[part])
            replicas = np.bincount(pairs // self.n_workers)
            split = (replicas > 1) | (not self.forwarding)
            partial = int(replicas[split].sum())
            waiting = int(split[index].sum())
            n_partial += partial
            n_waiting += waiting
            seconds += waiting * partial * self.merge / self.reducers
        return {
            "strategy": self.strategy,
            "workers": self.n_workers,
            "partial_results": n_partial / keys.size,
            "waiting_share": n_waiting / keys.size,
            "merge_seconds": seconds / keys.size,
        }
