"""Looks at the keys of a stream: how skewed they are, how they drift, and what would help."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from skewless import registry
from skewless.arrays import Ints, Keys
from skewless.simulator import simulate
from skewless.simulator.replicas import ReplicaCounter
from skewless.workloads.workload import Workload

#: Strategies that stand for what one can do: by hash, at random, and by what the keys are.
COMPARED = ("hash", "shuffle", "pkg", "pd-stream", "cascade", "cascade-ahead", "mixed")
#: Below this imbalance of hashing, nothing needs to be changed.
HARMLESS = 0.2
_TOP = 20
_PARTS = 10
_FEWEST_PER_WORKER = 20  # records; with fewer, loads differ by chance
_MOST_KEYS = 1 << 21  # counted exactly; beyond, light keys are forgotten


class KeyCounts(NamedTuple):
    """The keys of a stream and how often each came; light ones may be missing."""

    keys: Keys
    counts: Ints
    n_records: int
    n_keys: int  # all of them: exact, or an estimate where there are millions


@dataclass(frozen=True)
class Measured:
    """What a strategy would do."""

    strategy: str
    slowest: float  # load of the fullest worker / fair share, mean over windows
    replicas: float  # workers per key, mean over windows
    replicas_in_all: float


@dataclass(frozen=True)
class KeyReport:
    """What the keys of a stream look like."""

    n_records: int
    n_keys: int
    n_workers: int
    top_keys: tuple[tuple[int, float], ...]  # hash and share of the records
    n_above_fair_share: int  # keys that one worker alone cannot carry
    drift: float  # of the heaviest keys from one tenth of the stream to the next: 0 none, 1 all
    measured: tuple[Measured, ...]

    @property
    def skewed(self) -> bool:
        """Whether hashing would leave one worker with much more than the others."""
        return self.of("hash").slowest - 1.0 > HARMLESS

    def of(self, strategy: str) -> Measured:
        """Return what one of the strategies would do."""
        return next(one for one in self.measured if one.strategy == strategy)

    @property
    def advice(self) -> str:
        """What to do, in two sentences."""
        if self.n_records < _FEWEST_PER_WORKER * self.n_workers:
            return (
                f"{self.n_records:,} records are too few for {self.n_workers} workers to tell "
                "skew from chance."
            )
        hashing = self.of("hash").slowest
        if not self.skewed:
            return (
                f"Hashing is even enough: the fullest worker has {hashing:.2f} times its fair "
                "share. Keep plain Spark."
            )
        split, moved = self.of("cascade-ahead"), self.of("mixed")
        lines = [
            f"With hashing the fullest worker has {hashing:.2f} times its fair share. Where "
            f"results of a key can be merged, cascade-ahead has {split.slowest:.2f} at "
            f"{split.replicas:.2f} workers per key.",
        ]
        if moved.slowest < hashing:
            heavy = self.n_above_fair_share
            because = ""
            if heavy and moved.slowest - 1.0 > HARMLESS:
                keys = "one key is" if heavy == 1 else f"{heavy} keys are"
                because = f", because {keys} too heavy for one worker"
            lines.append(f"Where they cannot, mixed has {moved.slowest:.2f}{because}.")
        return " ".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values by name, ready for JSON."""
        return asdict(self) | {"skewed": self.skewed, "advice": self.advice}


def count_keys(chunks: Iterator[Keys]) -> KeyCounts:
    """Return how often each key came; beyond some millions of keys, light ones are forgotten."""
    keys: Keys = np.empty(0, np.uint64)
    counts: Ints = np.empty(0, np.int64)
    n_records = 0
    distinct = ReplicaCounter(_MOST_KEYS)
    for chunk in chunks:
        n_records += chunk.size
        distinct.add(chunk, np.zeros(chunk.size, np.int32))
        new, times = np.unique(chunk, return_counts=True)
        both = np.concatenate([keys, new])
        keys, index = np.unique(both, return_inverse=True)
        counts = np.bincount(index, np.concatenate([counts, times]), keys.size).astype(np.int64)
        if keys.size > _MOST_KEYS:
            kept = np.argpartition(counts, -_MOST_KEYS // 2)[-_MOST_KEYS // 2 :]
            kept.sort()
            keys, counts = keys[kept], counts[kept]
    return KeyCounts(keys, counts, n_records, round(distinct.counts()[0]))


def drift_of(parts: Sequence[KeyCounts], top: int = _TOP) -> float:
    """Return the mean Jaccard distance of the heaviest keys of consecutive parts.

    >>> one = KeyCounts(np.array([1, 2], np.uint64), np.array([5, 3]), 8, 2)
    >>> other = KeyCounts(np.array([2, 3], np.uint64), np.array([5, 3]), 8, 2)
    >>> drift_of([one, one]), round(drift_of([one, other]), 2)
    (0.0, 0.67)
    """
    heaviest = [
        set(part.keys[np.argsort(-part.counts, kind="stable")[:top]].tolist()) for part in parts
    ]
    distances = [
        1.0 - len(one & other) / len(one | other)
        for one, other in pairwise(heaviest)
        if one | other
    ]
    return float(np.mean(distances)) if distances else 0.0


def diagnose_keys(
    workload: Workload, *, n_workers: int, window: int = 10_000, n_sources: int = 4, seed: int = 0
) -> KeyReport:
    """Return what the keys of a stream look like, and what strategies would do with them."""
    counted = count_keys(workload.chunks(seed))
    if not counted.n_records:
        raise ValueError("there are no records")
    shares = counted.counts / counted.n_records
    order = np.argsort(-shares, kind="stable")
    measured = []
    for name in COMPARED:
        run = simulate(
            registry.make(name),
            workload,
            n_workers=n_workers,
            n_sources=n_sources,
            seed=seed,
            window=window,
        ).summary()
        measured.append(
            Measured(
                name,
                run["window_max_load_ratio_mean"],
                run["window_replication_mean"],
                run["replication"],
            )
        )
    return KeyReport(
        n_records=counted.n_records,
        n_keys=counted.n_keys,
        n_workers=n_workers,
        top_keys=tuple((int(counted.keys[i]), float(shares[i])) for i in order[:_TOP]),
        n_above_fair_share=int((shares > 1.0 / n_workers).sum()),
        drift=drift_of(list(_parts(workload, counted.n_records, seed))),
        measured=tuple(measured),
    )


def _parts(workload: Workload, n_records: int, seed: int) -> Iterator[KeyCounts]:
    """Yield the counts of each tenth of a stream."""
    size = max(-(-n_records // _PARTS), 1)
    for chunk in workload.chunks(seed, size):
        yield count_keys(iter([chunk]))
