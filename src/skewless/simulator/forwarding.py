"""Partial results at the end of a window, and which of them need no merging (Dalton, 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import Floats, Keys, Workers
from skewless.simulator.timed.timing import Timing


@dataclass(frozen=True)
class Merging:
    """The partial results at the end of one window."""

    n_keys: int
    n_pairs: int
    n_merged_pairs: int  # pairs (key, worker) that are merged by key; the others are final
    n_wrong: int  # keys of which a partial result was taken for final


class Partials(NamedTuple):
    """Which keys have a part on which workers, each pair once, by key and worker."""

    keys: Keys
    workers: Workers


def partials(keys: Keys, workers: Workers) -> Partials:
    """Return each pair of key and worker once."""
    by_key = np.lexsort((workers, keys))
    keys, workers = keys[by_key], workers[by_key]
    first = np.ones(keys.size, np.bool_)
    first[1:] = (keys[1:] != keys[:-1]) | (workers[1:] != workers[:-1])
    return Partials(keys[first], workers[first])


class Forwarding:
    """What each source has sent in this window, and which results need merging at its end."""

    def __init__(self, strategy: Any, n_sources: int) -> None:
        self.windows: list[Merging] = []
        self._strategy = strategy
        self._routed: list[list[tuple[Keys, Workers]]] = [[] for _ in range(n_sources)]

    def add(self, source: int, keys: Keys, workers: Workers) -> None:
        """Note what a source has just sent."""
        self._routed[source].append((keys, workers))

    def end_window(self, states: Sequence[Any], told: Sequence[bool]) -> Keys:
        """Count what is merged by key and what is final; return the keys to merge.

        A source that is not `told` got no answer in this window. It forwards nothing, because its
        state says too little about the others.
        """
        keys, workers, merging = [], [], []
        for source, state in enumerate(states):
            columns = zip(*self._routed[source], strict=True)
            own_keys, own_workers = (np.concatenate(column) for column in columns)
            final = self._strategy.forwards(own_keys, own_workers, state) & told[source]
            keys.append(own_keys)
            workers.append(own_workers)
            merging.append(np.unique(own_keys[~final]))
            self._routed[source] = []
        # A source that has sent records of a key elsewhere than to its hash worker tells the hash
        # worker so. A worker merges its part of a key if any source says so, even one that has
        # sent it no records of the key.
        to_merge = np.unique(np.concatenate(merging))
        pairs = partials(np.concatenate(keys), np.concatenate(workers))
        self.windows.append(merging_of(pairs, np.isin(pairs.keys, to_merge)))
        return to_merge


def merging_of(pairs: Partials, merged: NDArray[np.bool_]) -> Merging:
    """Count the pairs of a window; a final one whose key has a part elsewhere is wrong."""
    _, index, n_pairs = np.unique(pairs.keys, return_inverse=True, return_counts=True)
    wrong = ~merged & (n_pairs[index] > 1)
    return Merging(
        n_keys=n_pairs.size,
        n_pairs=pairs.keys.size,
        n_merged_pairs=int(merged.sum()),
        n_wrong=int(np.unique(pairs.keys[wrong]).size),
    )


class MergeStage:
    """Reducers that merge one replica after the other; each key belongs to one of them.

    With key forwarding, only some keys are merged: `merge_only` says which, window by window.
    """

    def __init__(self, timing: Timing, *, forwarding: bool = False) -> None:
        self._seconds = timing.merge
        self._free: Floats = np.zeros(timing.reducers)
        self._sent: dict[int, list[tuple[Keys, Workers]]] = {}
        self._merging: dict[int, Keys] | None = {} if forwarding else None

    def add(self, window: int, keys: Keys, workers: Workers) -> None:
        """Note which keys have a part on which workers."""
        self._sent.setdefault(window, []).append((keys, workers))

    def merge_only(self, window: int, keys: Keys) -> None:
        """Merge only these keys of a window; the results of all other keys are final."""
        if self._merging is not None:
            self._merging[window] = keys

    def knows(self, window: int) -> bool:
        """Return whether it is known which keys of a window are merged."""
        return self._merging is None or window in self._merging

    def close(self, window: int, time: float) -> float:
        """Return when the results of a window are merged, whose records were done at `time`.

        Without a call of `merge_only`, as for an incomplete last window, all keys are merged.
        """
        columns = zip(*self._sent.pop(window), strict=True)
        keys = partials(*(np.concatenate(column) for column in columns)).keys
        merging = None if self._merging is None else self._merging.pop(window, None)
        merged = keys if merging is None else keys[np.isin(keys, merging)]
        reducers = (merged % np.uint64(self._free.size)).astype(np.int64)
        work = np.bincount(reducers, minlength=self._free.size) * self._seconds
        busy = work > 0
        self._free[busy] = np.maximum(self._free[busy], time) + work[busy]
        return float(self._free[busy].max(initial=time))
