"""Where keys live: a table of exceptions over a consistent-hash ring, and what routing needs of it.

A key in the table goes to the worker that the table names, every other key to its owner on the
ring (eq. 1 of Mixed). Routing reads it and never writes; only a rebalance or a rescale does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import I64, Floats, Ints, Keys, SmallInts, Words, Workers, read_only
from skewless.kernels.hashing import seed_array, seeded, seeded_all
from skewless.kernels.key_table import ABSENT, KeyTable, find_slot, key_table
from skewless.kernels.ring import Ring
from skewless.plumbing.compiling import kernel
from skewless.state import MOST_COUNTED, fixed, growing, require_that, require_within, within, zeros

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

    Random points on a ring give shares that deviate by 1/√(points), and plans would have to repair
    it key by key. Here the space is cut into cells, 64 to 512 per worker. Workers join in order,
    and each takes the same number of cells from all that are there. So a worker that joins only
    takes, and one that leaves gives its cells back to where they were: this is a consistent hash.
    Capacities other than equal ones are met afterwards: workers with too many cells give some to
    the others. All follows from the capacities alone; where keys are depends on their seed.

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


_SPARSE = 1 << 13  # keys, which take 200 KB


@fixed("seeds", "capacities")
@within(0, MOST_COUNTED, "n_reports")
@growing("table.keys", "table.values", "named_in")
class TableState(NamedTuple):
    """The ring, the table, and which report named a key of the table last."""

    seeds: Words  # [1] of keys
    capacities: Floats  # relative speed of each worker
    ring: Ring
    table: KeyTable  # key -> worker, only where that is not the ring's
    n_entries: Ints
    named_in: Ints  # by slot of the table: the last report that named the key
    n_reports: Ints  # [1] reports so far

    def check(self, fresh: TableState) -> None:
        """Refuse workers that do not exist."""
        require_within("table", self.table.values, ABSENT, self.capacities.size - 1)
        n_entries = np.count_nonzero(self.table.values != ABSENT)
        require_that(self.n_entries[0] == n_entries, "n_entries must count the keys of the table")
        same_size = self.named_in.size == self.table.values.size
        require_that(same_size, "named_in must have one number per slot of the table")
        require_within("named_in", self.named_in, 0, int(self.n_reports[0]))


@kernel
def route_by_table(keys: Keys, state: TableState, out: Workers) -> None:
    """Fill `out` with the worker of each key."""
    seed, ring = state.seeds[0], state.ring
    for i in range(keys.size):
        # Both look-ups, always: which of them counts is as hard to predict as the next key.
        cell = np.int64(seeded(keys[i], seed) >> ring.shift[0])
        home = ring.workers[ring.first[cell]]
        worker = state.table.values[find_slot(state.table, keys[i])]
        out[i] = home if worker == ABSENT else worker


@kernel
def _fill(table: KeyTable, named_in: Ints, keys: Keys, workers: Workers, named: Ints) -> None:
    for i in range(keys.size):
        slot = find_slot(table, keys[i])
        table.keys[slot] = keys[i]
        table.values[slot] = workers[i]
        named_in[slot] = named[i]


def homes(keys: Keys, state: TableState) -> Workers:
    """Return the owner of each key on the ring, whatever the table says (the paper's h)."""
    hashes = np.empty(keys.size, np.uint64)
    seeded_all(read_only(keys), state.seeds, hashes)
    found: Workers = state.ring.workers[state.ring.first[hashes >> state.ring.shift[0]]]
    return found


def owners(keys: Keys, state: TableState) -> Workers:
    """Return where each key lives (the paper's F)."""
    out = np.empty(keys.size, np.int32)
    route_by_table(keys, state, out)
    return out


class Entries(NamedTuple):
    """Entries of the table, by ascending key."""

    keys: Keys
    workers: Workers
    named_in: Ints  # the last report that named the key

    def part(self, which: NDArray[np.bool_]) -> Entries:
        """Return those that `which` is true for."""
        return Entries(self.keys[which], self.workers[which], self.named_in[which])


def all_entries(state: TableState) -> Entries:
    """Return the entries of the table; the paper's N_A, their number, is `state.n_entries[0]`."""
    used = np.flatnonzero(state.table.values != ABSENT)
    order = used[np.argsort(state.table.keys[used])]
    return Entries(state.table.keys[order], state.table.values[order], state.named_in[order])


def start_table(n_workers: int, seed: int) -> TableState:
    """Return the ring with an empty table."""
    table = key_table(0)
    capacities = np.ones(n_workers)
    return zeros(
        TableState,
        1,
        seeds=seed_array(seed, 1),
        capacities=capacities,
        ring=even_ring(capacities),
        table=table,
        named_in=table.values.size,
    )


def with_entries(
    state: TableState, keys: Keys, workers: Workers, named_in: Ints | None = None
) -> TableState:
    """Return the state with these entries in its table, without those that agree with the ring.

    `named_in` is the last report that named each key; None: the last one of all.
    """
    away = homes(keys, state) != workers
    keys, workers = keys[away], workers[away]
    named = np.full(keys.size, state.n_reports[0]) if named_in is None else named_in[away]
    # A small table gets room to spare: a key that is not in it then finds an empty slot at once.
    table = key_table(max(keys.size, min(8 * keys.size, _SPARSE)))
    by_slot = np.zeros(table.values.size, np.int64)
    _fill(table, by_slot, keys, workers, named)
    return state._replace(table=table, n_entries=np.array([keys.size]), named_in=by_slot)


def rescaled(state: TableState, n_workers: int, capacities: Floats | None) -> TableState:
    """Return the state for other workers; entries of workers that are gone fall to the ring."""
    speeds = np.ones(n_workers) if capacities is None else np.asarray(capacities, np.float64)
    if speeds.shape != (n_workers,):
        raise ValueError(f"capacities must be {n_workers} numbers, not {capacities!r}")
    known = all_entries(state)
    stays = known.part(known.workers < n_workers)
    return with_entries(state._replace(ring=even_ring(speeds), capacities=speeds), *stays)


def moved(
    state: TableState, keys: Keys, key_homes: Workers, targets: Workers, kept: Entries
) -> TableState:
    """Return the state in which `keys`, all of the last report, live at `targets`.

    `kept` are the entries of other keys that stay in the table.
    """
    away = targets != key_homes
    in_table = np.concatenate((keys[away], kept.keys))
    workers = np.concatenate((targets[away], kept.workers))
    named = np.full(int(away.sum()), state.n_reports[0])
    return with_entries(state, in_table, workers, np.concatenate((named, kept.named_in)))


def is_among(few: Keys, keys: Keys) -> NDArray[np.bool_]:
    """Return which of `few` are among `keys`, which are ascending."""
    if keys.size == 0:
        return np.zeros(few.size, np.bool_)
    places = np.searchsorted(keys, few)
    found: NDArray[np.bool_] = keys[np.minimum(places, keys.size - 1)] == few
    return found
