"""A ring whose workers own equal shares of the hash space, or shares by their capacities.

Random points on a ring give shares that deviate by 1/√(points), and plans would have to repair it
key by key. Here the space is cut into cells, 64 to 512 per worker. Workers join in order, and each
takes the same number of cells from all that are there. So a worker that joins only takes, and
one that leaves gives its cells back to where they were: the ring is a consistent hash. Capacities
other than equal ones are met afterwards: workers with too many cells give some to the others.

The ring follows from the capacities alone. Where keys are on it depends on their seed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays import I64, Floats, Ints, SmallInts, Workers
from skewless.kernels.ring import Ring
from skewless.plumbing.compiling import kernel

#: Cells per worker, at least: the first number while they are 2^16 at most, else the second. A plan
#: for the JVM is short with 2^16 cells or fewer. Their number is a power of two.
_CELLS, _LEAST = 256, 64
_MOST_CELLS = 1 << 16
_NONE = -1


class Stacks(NamedTuple):
    """Cells in stacks, one per worker; the cell on top of a stack is the next to be taken."""

    owners: Workers  # by cell
    below: SmallInts  # by cell: the cell below it in its stack
    top: SmallInts  # by worker
    counts: Ints  # by worker: its cells


@kernel
def _is_enough(n_cells: I64, n_workers: I64) -> bool:
    wanted: int = min(_CELLS * n_workers, max(_MOST_CELLS, _LEAST * n_workers))
    return bool(n_cells >= wanted)


@kernel
def _halve(stacks: Stacks, n_cells: I64, n_workers: I64) -> None:
    """Cut all cells into two; both halves stay with their worker."""
    for cell in range(n_cells - 1, -1, -1):
        under = stacks.below[cell]
        stacks.owners[2 * cell + 1] = stacks.owners[2 * cell] = stacks.owners[cell]
        stacks.below[2 * cell + 1] = 2 * cell
        stacks.below[2 * cell] = 2 * under + 1 if under != _NONE else _NONE
    for worker in range(n_workers):
        stacks.top[worker] = 2 * stacks.top[worker] + 1
        stacks.counts[worker] *= 2


@kernel
def _join(stacks: Stacks, n_workers: I64) -> None:
    """Let workers join one after the other, until there are `n_workers`.

    Earlier workers may have one cell more than later ones. When cells are halved, the number of
    workers is a power of two, and all have the same number. So no worker has to take any back.
    """
    n_cells = np.int64(_CELLS)
    for cell in range(n_cells):
        stacks.owners[cell] = 0
        stacks.below[cell] = cell - 1
    stacks.top[0], stacks.counts[0] = n_cells - 1, n_cells
    for worker in range(1, n_workers):
        if not _is_enough(n_cells, worker + 1):
            _halve(stacks, n_cells, worker)
            n_cells *= 2
        stacks.top[worker], stacks.counts[worker] = _NONE, n_cells // (worker + 1)
        left = n_cells - stacks.counts[worker]
        for giver in range(worker):
            keeps = left // worker + (giver < left % worker)
            while stacks.counts[giver] > keeps:
                cell = stacks.top[giver]
                stacks.top[giver] = stacks.below[cell]
                stacks.counts[giver] -= 1
                stacks.owners[cell] = worker
                stacks.below[cell] = stacks.top[worker]
                stacks.top[worker] = cell


def cell_owners(capacities: Floats) -> Workers:
    """Return the worker of each cell, in the order of hashes; each worker has one at least.

    >>> np.bincount(cell_owners(np.array([1.0, 1.0, 2.0]))).tolist()
    [256, 256, 512]
    """
    if capacities.size < 1:
        raise ValueError("n_workers must be at least 1, not 0")
    if not (np.isfinite(capacities) & (capacities > 0)).all():
        raise ValueError(f"capacities must be finite numbers above 0, not {capacities.tolist()}")
    n_workers = capacities.size
    n_cells = _CELLS
    while not _is_enough(n_cells, n_workers):
        n_cells *= 2
    owners, below = np.zeros(n_cells, np.int32), np.zeros(n_cells, np.int32)
    top, counts = np.zeros(n_workers, np.int32), np.zeros(n_workers, np.int64)
    _join(Stacks(owners, below, top, counts), n_workers)
    if (capacities == capacities[0]).all():
        return owners
    wanted = _shares(capacities / capacities.max(), n_cells)
    by_owner = np.argsort(owners, kind="stable")
    ranks = np.arange(n_cells) - np.repeat(np.cumsum(counts) - counts, counts)
    given = np.sort(by_owner[ranks >= np.repeat(wanted, counts)])
    owners[given] = np.repeat(np.arange(n_workers), np.maximum(wanted - counts, 0))
    return owners


def _shares(capacities: Floats, n_cells: int) -> Ints:
    """Count the cells of each worker: one, and a share of the others."""
    shares = (n_cells - capacities.size) * (capacities / capacities.sum())
    cells: Ints = np.floor(shares).astype(np.int64)
    n_left = n_cells - capacities.size - int(cells.sum())
    cells[np.argsort(cells - shares, kind="stable")[:n_left]] += 1  # the largest remainders
    cells += 1
    return cells


def even_ring(capacities: Floats) -> Ring:
    """Return the ring on which neighbouring cells of one worker are one arc.

    `first` has one place per cell, so the owner of a hash is `workers[first[hash >> shift]]`.
    """
    owners = cell_owners(capacities)
    ends = np.append(owners[1:] != owners[:-1], True)  # the last cell of each arc
    shift = np.uint64(64 - (owners.size - 1).bit_length())
    arcs = np.flatnonzero(ends).astype(np.uint64)
    positions = (arcs << shift) | ((np.uint64(1) << shift) - np.uint64(1))
    return Ring(
        positions=np.append(positions, np.uint64(2**64 - 1)),
        workers=np.append(owners[ends], owners[0]),
        first=np.append(0, np.cumsum(ends)[:-1]).astype(np.int32),
        shift=np.array([shift]),
        unit=np.ones(1),
        seen=np.zeros(capacities.size, np.int64),
        stamp=np.zeros(1, np.int64),
    )
