"""What a workload is: keys in stream order, from a seed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from skewless.arrays import Floats, Ints, Keys, Words
from skewless.kernels.xxhash64 import hash_ranks
from skewless.plumbing.arguments import seed_number, whole

#: Records per chunk, unless told otherwise: small enough for the cache, large enough for numpy.
CHUNK_SIZE = 1 << 18

# Sets the draws of workloads apart from those of strategies, which may be given the same seed.
_PURPOSE = 0x6B657973
_SEEDS = 3  # as many as the workload that needs most of them


class Workload(Protocol):
    """Keys in stream order.

    Write it as a frozen dataclass: its fields are the parameters. Record i is a pure function of
    (parameters, seed, i), so the stream does not depend on how it is cut into chunks. In a run
    with several sources, record i goes to source i mod n_sources.
    """

    #: The name by which the registry and the command line know it.
    name: ClassVar[str]

    @property
    def n_records(self) -> int | None:
        """How many records there are, or None where counting them means reading them."""

    def chunks(self, seed: int, chunk_size: int = CHUNK_SIZE) -> Iterator[Keys]:
        """Yield the key hashes in order: all chunks are of `chunk_size` but the last."""


@runtime_checkable
class Weighted(Protocol):
    """A workload whose records may differ in what they cost."""

    def weights(self, seed: int, chunk_size: int = CHUNK_SIZE) -> Iterator[Floats] | None:
        """Yield what the records cost, cut like `chunks`; None where all cost the same."""


class Ranked(ABC):
    """A workload whose keys are the whole numbers from 1: it draws ranks, and hashes them.

    The key hash of rank r is `xxhash64(CAST(r AS BIGINT))` of Spark, so that the same stream can
    be made on both sides.
    """

    n_records: int

    @abstractmethod
    def fill(self, seeds: Words, first: int, out: Ints) -> None:
        """Fill `out` with the raw keys of the records from number `first` on, by these seeds."""

    def ranks(self, seed: int, chunk_size: int = CHUNK_SIZE) -> Iterator[Ints]:
        """Yield the raw keys in order."""
        seeds = draw_seeds(seed, _SEEDS)
        for first, size in spans(self.n_records, chunk_size):
            out = np.empty(size, np.int64)
            self.fill(seeds, first, out)
            yield out

    def chunks(self, seed: int, chunk_size: int = CHUNK_SIZE) -> Iterator[Keys]:
        """Yield the key hashes in order: all chunks are of `chunk_size` but the last."""
        for ranks in self.ranks(seed, chunk_size):
            keys = np.empty(ranks.size, np.uint64)
            hash_ranks(ranks, keys)
            yield keys


def spans(n_records: int, chunk_size: int) -> Iterator[tuple[int, int]]:
    """Yield the first record and the size of each chunk.

    >>> list(spans(10, 4))
    [(0, 4), (4, 4), (8, 2)]
    """
    chunk_size = whole(chunk_size, "chunk_size", least=1)
    for first in range(0, n_records, chunk_size):
        yield first, min(chunk_size, n_records - first)


def segments(first: int, size: int, period: int) -> Iterator[tuple[int, int, int]]:
    """Cut a chunk where a new period begins: yield (number of the period, start, stop).

    Start and stop are positions in the chunk, whose first record is number `first`.

    >>> list(segments(first=7, size=6, period=5))
    [(1, 0, 3), (2, 3, 6)]
    """
    start = 0
    while start < size:
        number, inside = divmod(first + start, period)
        stop = min(size, start + period - inside)
        yield number, start, stop
        start = stop


def draw_seeds(seed: int, n: int) -> Words:
    """Return `n` independent seeds for the draws of a workload."""
    sequence = np.random.SeedSequence(seed_number(seed), spawn_key=(_PURPOSE,))
    return sequence.generate_state(n, np.uint64).astype(np.uint64)
