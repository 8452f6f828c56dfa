"""Prompt: the keys of a micro-batch are cut to size and packed into blocks, one per worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from skewless.arrays import I64, Ints, Keys, Words, Workers, read_only
from skewless.kernels.hashing import seed_array, seeded_all
from skewless.kernels.least_loaded import first_least
from skewless.plumbing.compiling import kernel
from skewless.state import fixed
from skewless.strategies.rescaling import HashedAnew
from skewless.strategy import Traits


@fixed("seed", "n_workers")
class PromptState(NamedTuple):
    """The seed and the number of workers: a batch does not depend on the one before."""

    seed: Words
    n_workers: Ints


class Pieces(NamedTuple):
    """Records of a key, by its rank in the batch, that go to a worker together."""

    ranks: Ints
    workers: Ints
    sizes: Ints


@kernel
def _place(pieces: Pieces, n: I64, rank: I64, worker: I64, size: I64, blocks: Ints) -> I64:
    pieces.ranks[n] = rank
    pieces.workers[n] = worker
    pieces.sizes[n] = size
    blocks[worker] += size
    return n + 1


@kernel
def _fitting(blocks: Ints, block_size: I64, home: I64, rest: I64) -> I64:
    """Return the key's own block if the rest fits, else the fullest where it fits, else −1."""
    if blocks[home] + rest <= block_size:
        return home
    best = -1
    for worker in range(blocks.size):
        if blocks[worker] + rest <= block_size and (best < 0 or blocks[worker] > blocks[best]):
            best = worker
    return best


@kernel
def pack(counts: Ints, blocks: Ints, pieces: Pieces) -> I64:
    """Put the keys, by descending `counts`, into `blocks`; return the number of pieces."""
    n_keys, n_workers = counts.size, blocks.size
    n_records = 0
    for rank in range(n_keys):
        n_records += counts[rank]
    block_size = (n_records + n_workers - 1) // n_workers
    # Block size over keys per block: the records of a mean key.
    cut = (n_records + n_keys - 1) // n_keys
    n = 0
    n_cut = 0
    while n_cut < n_keys and counts[n_cut] > cut:  # one cut's worth each, round robin
        n = _place(pieces, n, n_cut, n_cut % n_workers, cut, blocks)
        n_cut += 1
    for rank in range(n_cut, n_keys):  # the others whole, to and fro from there on
        lap = rank // n_workers - n_cut // n_workers
        step = rank % n_workers
        worker = step if lap % 2 == 0 else n_workers - 1 - step
        n = _place(pieces, n, rank, worker, counts[rank], blocks)
    for rank in range(n_cut):  # what is left of the first ones
        rest = counts[rank] - cut
        while rest > 0:
            worker = _fitting(blocks, block_size, rank % n_workers, rest)
            size = rest
            if worker < 0:
                worker = first_least(blocks)
                size = block_size - blocks[worker]
            n = _place(pieces, n, rank, worker, size, blocks)
            rest -= size
    return n


@dataclass(frozen=True)
class Prompt(HashedAnew):
    """Cut the heavy keys of a micro-batch to the size of a mean key, and pack all into n blocks.

    Keys above the cut first give one cut's worth each, round robin; the lighter ones are dealt out
    to and fro by falling frequency. So every block has about as many keys as any other. Then what
    is left of a heavy key goes where the key is, else where it fits best, else to the emptiest.

    **Guarantee**, for a batch of m records of K keys: no worker gets more than ⌈m/n⌉ or
    ⌈K/n⌉·⌈m/K⌉ records, whichever is more; all keys together have at most n pieces more than K
    and one for each key above the mean.

    **Deviations from the paper**: batches are given, so the paper's sampling and its tree that
    sorts keys while the batch fills are one sort here. The block size and the cut are rounded up.
    Dealing to and fro begins where round robin stopped. Keys of equal frequency are in order of
    their seeded hashes, and the lowest index wins among equal workers: the paper does not say.

    Examples
    --------
    >>> out = np.empty(8, np.int32)
    >>> strategy = Prompt()
    >>> keys = np.array([5, 5, 5, 5, 5, 6, 7, 8], np.uint64)
    >>> strategy.route(keys, strategy.start(2, seed=0), out)
    >>> np.bincount(out).tolist()
    [4, 4]

    References
    ----------
    Abdelhamid et al., "Prompt: dynamic data-partitioning for distributed micro-batch stream
    processing systems", SIGMOD 2020, the micro-batch partitioner; also a baseline of Dalton.
    """

    name: ClassVar[str] = "prompt"
    traits: ClassVar[Traits] = Traits(
        family="splitting", decides="batch", gathers=True, ignores_speeds=True
    )

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> PromptState:
        """Return the seed and the number of workers."""
        return PromptState(seed_array(seed, 1), np.array([n_workers]))

    def route(self, keys: Keys, state: PromptState, out: Workers) -> None:
        """Fill `out` with the worker of each record of this batch."""
        if keys.size == 0:
            return
        hashes = np.empty(keys.size, np.uint64)
        seeded_all(read_only(keys), state.seed, hashes)
        known, index, counts = np.unique(hashes, return_inverse=True, return_counts=True)
        by_rank = np.lexsort((known, -counts))
        n_workers = int(state.n_workers[0])
        # One piece per key, one more for what a cut leaves, and every other one fills a block.
        n_pieces = 2 * known.size + n_workers
        pieces = Pieces(*(np.zeros(n_pieces, np.int64) for _ in range(3)))
        n = int(pack(counts[by_rank], np.zeros(n_workers, np.int64), pieces))
        # Records by rank of their key, in the order of the stream, take the key's pieces in turn.
        rank_of = np.empty(known.size, np.int64)
        rank_of[by_rank] = np.arange(known.size)
        records = np.argsort(rank_of[index], kind="stable")
        in_turn = np.argsort(pieces.ranks[:n], kind="stable")
        out[records] = np.repeat(pieces.workers[:n][in_turn], pieces.sizes[:n][in_turn])
