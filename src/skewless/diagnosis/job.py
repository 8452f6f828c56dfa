"""A job before it runs: the keys of its records by partition, its workers, slots and costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from skewless.arrays import Ints, Keys, Workers
from skewless.diagnosis.costs import Costs, Moving, makespan
from skewless.workloads.workload import CHUNK_SIZE, spans

#: Above this many places, (key, worker) pairs are counted by sorting instead of in a table.
_MOST_PLACES = 1 << 28


@dataclass(frozen=True)
class SampledKeys:
    """Key hashes in the order of the records, partition by partition; also a workload."""

    name: ClassVar[str] = "sample"

    keys: Keys  # one hash per record
    # How many of the records each partition has; None: there is one partition.
    partitions: tuple[int, ...] | None = None
    # Where the engine's own hash sends each record; None: by the strategy `hash`.
    hashed: Workers | None = None

    @property
    def n_records(self) -> int:
        """How many records there are."""
        return int(self.keys.size)

    @property
    def n_keys(self) -> int:
        """How many distinct keys there are."""
        return int(self.distinct[0].size)

    def n_above(self, records: float) -> int:
        """Return how many keys have more records than this."""
        return int((np.bincount(self.distinct[1]) > records).sum())

    def chunks(self, seed: int, chunk_size: int = CHUNK_SIZE) -> Iterator[Keys]:
        """Yield the key hashes in order."""
        for first, size in spans(self.n_records, chunk_size):
            yield self.keys[first : first + size]

    def sources(self) -> Iterator[slice]:
        """Yield where the records of each partition are."""
        begin = 0
        for size in (self.n_records,) if self.partitions is None else self.partitions:
            yield slice(begin, begin + size)
            begin += size

    def pairs(self, places: Workers, n_places: int) -> Ints:
        """Return the number of distinct keys at each place; record i is at `places[i]`."""
        n_keys, index = self.n_keys, self.distinct[1]
        if n_keys * n_places <= _MOST_PLACES:
            has = np.zeros((n_places, n_keys), bool)
            has[places, index] = True
            counts: Ints = has.sum(axis=1, dtype=np.int64)
            return counts
        pairs = np.unique(index * n_places + places)
        return np.bincount(pairs % n_places, minlength=n_places)

    @cached_property
    def distinct(self) -> tuple[Keys, Ints]:
        """The distinct keys, and the number of each record's key among them."""
        distinct, index = np.unique(self.keys, return_inverse=True)
        return distinct, index.astype(np.int64, copy=False)


@dataclass(frozen=True)
class Job:
    """What is known about a job before it runs."""

    sample: SampledKeys  # the keys of its records, or of some of them
    # Tasks after the routing, and tasks that run at the same time.
    n_workers: int
    n_slots: int
    records: int  # how many records there are; the sample may have fewer
    costs: Costs | None = None  # what the work costs; None: not known
    seed: int = 0  # of the strategies
    batch_size: int = 10_000  # records that the engine hands to a strategy at a time
    # Records of a micro-batch, where the sample is taken for a stream. None: a few micro-batches of
    # a thinner sample.
    window: int | None = None

    @property
    def pair_in_records(self) -> float:
        """What a key costs a worker, in records of the sample; 0 without costs."""
        if self.costs is None or self.costs.per_record <= 0:
            return 0.0
        scale = self.records / max(self.sample.n_records, 1)
        return self.costs.per_pair / self.costs.per_record / max(scale, 1.0)

    def seconds(self, loads: Ints, pairs: Ints, moving: Moving) -> float | None:
        """Return the time of tasks with this many records and keys each; None without costs.

        A sample has fewer records than the job, and may have fewer keys: the job has at least the
        pairs of the sample.
        """
        if self.costs is None:
            return None
        scale = self.records / self.sample.n_records if self.sample.n_records else 1.0
        each = map(self.costs.seconds, (scale * loads).tolist(), pairs.tolist())
        sources = [scale * (part.stop - part.start) for part in self.sample.sources()]
        return makespan(each, self.n_slots) + moving.seconds(sources, self.n_slots)
