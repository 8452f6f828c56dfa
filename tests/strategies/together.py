"""Sources that merge after batches of any size, as a query on Spark does, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from skewless.arrays import Keys, Workers
from skewless.simulator.syncing import merge_and_fork

#: Records of one batch, over all sources.
UNEVEN = [1, 7, 1_000, 10_001, 50_003]


class Together(NamedTuple):
    """Where the records went, and what the sources know in the end."""

    workers: Workers
    states: list[Any]

    def replicas(self, keys: Keys) -> float:
        """Replicas per key."""
        return replicas(keys, self.workers)


def replicas(keys: Keys, workers: Workers) -> float:
    """Distinct pairs of key and worker, per distinct key."""
    known, index = np.unique(keys, return_inverse=True)
    pairs = np.zeros((known.size, int(workers.max()) + 1), np.bool_)
    pairs[index, workers] = True
    return float(pairs.sum() / known.size)


def uneven_batches(
    n_records: int, sizes: Sequence[int], n_sources: int, seed: int = 5
) -> list[list[np.ndarray]]:
    """Return for each batch which records each source reads; some sources read more than others."""
    rng = np.random.default_rng(seed)
    batches = []
    begin = turn = 0
    while begin < n_records:
        n = min(sizes[turn % len(sizes)], n_records - begin)
        sources = rng.choice(n_sources, n, p=rng.dirichlet(np.full(n_sources, 4.0)))
        batches.append([np.flatnonzero(sources == s) + begin for s in range(n_sources)])
        begin += n
        turn += 1
    return batches


def routed_together(
    strategy: Any,
    keys: Keys,
    n_workers: int,
    n_sources: int,
    sizes: Sequence[int],
    *,
    merging: bool = True,
    seed: int = 0,
) -> Together:
    """Route all records, and merge the sources after every batch."""
    states = [strategy.start(n_workers, seed, source=source) for source in range(n_sources)]
    workers = np.full(keys.size, -1, np.int32)
    for batch in uneven_batches(keys.size, sizes, n_sources):
        for state, records in zip(states, batch, strict=True):
            out = np.full(records.size, -1, np.int32)
            strategy.route(keys[records], state, out)
            workers[records] = out
        if merging:
            states = merge_and_fork(strategy, states)
    return Together(workers, states)
