"""A cell that measures how well a predictor finds the hot keys of a stream, window by window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from skewless import workloads
from skewless.arrays import Bytes, Ints, Keys
from skewless.experiments.reproduction.papers.pstream.rivals import predictor, synopsis_bytes
from skewless.experiments.tables import Row

_OF_ONE_KEY = 100  # records that a key with a share of f has in a window
_NEAR = 0.25  # of f: keys above it are neither clearly hot nor clearly rare


@dataclass(frozen=True)
class PredictedHotKeys:
    """One predictor of hot keys on one stream.

    In each window, a key is *hot* if its share of the records is above f, and *found* if at least
    one of its records was called hot when it came. The first window is for learning.
    """

    kind: str
    workload: str
    of: Mapping[str, Any] = field(default_factory=dict)
    f: float = 0.01
    memory: int = 0  # bytes; 0: as many as PStream's synopsis takes by Theorem 4
    seed: int = 1

    def run(self) -> Row:
        """Measure precision and recall, by key and by record, and steps per record."""
        keys = np.concatenate(list(workloads.make(self.workload, **self.of).chunks(self.seed)))
        window = round(_OF_ONE_KEY / self.f)
        memory = self.memory or synopsis_bytes(self.f)
        finder = predictor(self.kind, self.f, memory, window, self.seed)
        called = np.zeros(keys.size, np.uint8)
        counts = np.zeros((2, 4), np.int64)
        for begin in range(0, keys.size, window):
            part = slice(begin, begin + window)
            finder.observe(keys[part], called[part])
            if begin or keys.size <= window:
                counts += _count(keys[part], called[part], self.f)
        steps = finder.steps()
        row: Row = {"predictor": self.kind, "records": int(keys.size), "memory": memory}
        for unit, (found, hot, both, near) in zip(("key", "record"), counts.tolist(), strict=True):
            row[f"{unit}_precision"] = both / found if found else 1.0
            row[f"{unit}_recall"] = both / hot if hot else 1.0
            row[f"{unit}_precision_near"] = near / found if found else 1.0
        row["steps"] = None if steps is None else steps / keys.size
        return row


def _count(keys: Keys, called: Bytes, f: float) -> Ints:
    """Return how many keys, and how many records, were found, hot, both, and found and near."""
    _, index, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    is_found = np.bincount(index, called, sizes.size) > 0
    rows = []
    for hot, near, found in (
        (sizes > f * keys.size, sizes > _NEAR * f * keys.size, is_found),
        (sizes[index] > f * keys.size, sizes[index] > _NEAR * f * keys.size, called != 0),
    ):
        rows.append([found.sum(), hot.sum(), (found & hot).sum(), (found & near).sum()])
    return np.array(rows, np.int64)


@dataclass(frozen=True)
class TimeHot:
    """How much of the time PStream's coins call one key hot, by its share of the records.

    All other records are of keys that come once. The first quarter of the stream is for learning.
    """

    share: float
    n_records: int
    f: float = 0.01
    seed: int = 1

    def run(self) -> Row:
        """Measure the part of the key's records that are called hot."""
        is_named = np.random.default_rng(self.seed).random(self.n_records) < self.share
        keys = np.where(is_named, 0, np.arange(1, self.n_records + 1)).astype(np.uint64)
        hot = np.zeros(keys.size, np.uint8)
        predictor("coins", self.f, synopsis_bytes(self.f), 1, self.seed).observe(keys, hot)
        settled = is_named & (np.arange(keys.size) >= keys.size // 4)
        return {"hot": float(hot[settled].mean()) if settled.any() else 0.0}
