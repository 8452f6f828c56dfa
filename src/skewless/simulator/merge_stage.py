"""The merge stage: partial results of a key meet at one reducer when their window has ended."""

from __future__ import annotations

import numpy as np

from skewless.arrays import Floats, Keys, Workers
from skewless.simulator.timing import Timing


class MergeStage:
    """Reducers that merge one replica after the other; each key belongs to one of them."""

    def __init__(self, timing: Timing) -> None:
        """Let all reducers be free."""
        self._seconds = timing.merge
        self._free: Floats = np.zeros(timing.reducers)
        self._pairs: dict[int, list[tuple[Keys, Workers]]] = {}

    def add(self, window: int, keys: Keys, workers: Workers) -> None:
        """Note which keys have a part on which workers."""
        self._pairs.setdefault(window, []).append((keys, workers))

    def close(self, window: int, time: float) -> float:
        """Return when the results of a window are merged, whose last record was done at a time."""
        pieces = self._pairs.pop(window)
        keys = np.concatenate([k for k, _ in pieces])
        workers = np.concatenate([w for _, w in pieces])
        by_key = np.lexsort((workers, keys))
        keys, workers = keys[by_key], workers[by_key]
        first = np.ones(keys.size, np.bool_)
        first[1:] = (keys[1:] != keys[:-1]) | (workers[1:] != workers[:-1])
        reducers = (keys[first] % np.uint64(self._free.size)).astype(np.int64)
        work = np.bincount(reducers, minlength=self._free.size) * self._seconds
        busy = work > 0
        self._free[busy] = np.maximum(self._free[busy], time) + work[busy]
        return float(self._free[busy].max(initial=time))
