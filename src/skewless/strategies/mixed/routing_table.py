"""Where keys live: a table of exceptions over a consistent-hash ring, and what routing needs of it.

A key in the table goes to the worker that the table names, every other key to its owner on the
ring (eq. 1 of Mixed). Routing reads it and never writes; only a rebalance or a rescale does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import I32, U64, Floats, Ints, Keys, Words, Workers
from skewless.kernels.hashing import seed_array, seeded
from skewless.kernels.key_table import ABSENT, KeyTable, find_slot, key_table
from skewless.kernels.ring import Ring
from skewless.plumbing.compiling import kernel
from skewless.state import MOST_COUNTED, require_same, require_that, require_within
from skewless.strategies.mixed.even_arcs import even_ring

_SPARSE = 1 << 13  # keys, which take 200 KB


class TableState(NamedTuple):
    """The ring, the table, and which report named a key of the table last."""

    seeds: Words  # [1] of keys
    capacities: Floats  # relative speed of each worker
    ring: Ring
    table: KeyTable  # key -> worker, only where that is not the ring's
    n_entries: Ints
    named_in: Ints  # by slot of the table: the last report that named the key
    n_reports: Ints  # [1] reports so far

    @property
    def grows(self) -> tuple[str, ...]:
        """Names of the fields whose length the controller changes."""
        return "table.keys", "table.values", "named_in"

    def check(self, fresh: TableState) -> None:
        """Refuse another ring, and workers that do not exist."""
        require_same("seeds", self.seeds, fresh.seeds)
        require_same("capacities", self.capacities, fresh.capacities)
        require_within("table", self.table.values, ABSENT, self.capacities.size - 1)
        n_entries = np.count_nonzero(self.table.values != ABSENT)
        require_that(self.n_entries[0] == n_entries, "n_entries must count the keys of the table")
        same_size = self.named_in.size == self.table.values.size
        require_that(same_size, "named_in must have one number per slot of the table")
        require_within("n_reports", self.n_reports, 0, MOST_COUNTED)
        require_within("named_in", self.named_in, 0, int(self.n_reports[0]))


@kernel
def _home(ring: Ring, hashed: U64) -> I32:
    """Return the owner on the ring, on which a cell has one owner."""
    return ring.workers[ring.first[np.int64(hashed >> ring.shift[0])]]


@kernel
def route_by_table(keys: Keys, state: TableState, out: Workers) -> None:
    """Fill `out` with the worker of each key."""
    seed = state.seeds[0]
    for i in range(keys.size):
        # Both look-ups, always: which of them counts is as hard to predict as the next key.
        home = _home(state.ring, seeded(keys[i], seed))
        worker = state.table.values[find_slot(state.table, keys[i])]
        out[i] = home if worker == ABSENT else worker


@kernel
def _homes(keys: Keys, state: TableState, out: Workers) -> None:
    for i in range(keys.size):
        out[i] = _home(state.ring, seeded(keys[i], state.seeds[0]))


@kernel
def _fill(table: KeyTable, named_in: Ints, keys: Keys, workers: Workers, named: Ints) -> None:
    for i in range(keys.size):
        slot = find_slot(table, keys[i])
        table.keys[slot] = keys[i]
        table.values[slot] = workers[i]
        named_in[slot] = named[i]


def homes(keys: Keys, state: TableState) -> Workers:
    """Return the owner of each key on the ring, whatever the table says (the paper's h)."""
    out = np.empty(keys.size, np.int32)
    _homes(keys, state, out)
    return out


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


def entries(state: TableState) -> tuple[Keys, Workers]:
    """Return the keys of the table, ascending, and their workers."""
    keys, workers, _ = all_entries(state)
    return keys, workers


def start_table(n_workers: int, seed: int) -> TableState:
    """Return the ring with an empty table."""
    table = key_table(0)
    return TableState(
        seed_array(seed, 1),
        np.ones(n_workers),
        even_ring(np.ones(n_workers)),
        table,
        np.zeros(1, np.int64),
        np.zeros(table.values.size, np.int64),
        np.zeros(1, np.int64),
    )


def _room_for(n_entries: int) -> int:
    """Return the number of keys that the table has room for.

    A small table gets room to spare: a key that is not in it then finds an empty slot at once.
    """
    return max(n_entries, min(8 * n_entries, _SPARSE))


def with_entries(
    state: TableState, keys: Keys, workers: Workers, named_in: Ints | None = None
) -> TableState:
    """Return the state with these entries in its table, without those that agree with the ring.

    `named_in` is the last report that named each key; None: the last one of all.
    """
    away = homes(keys, state) != workers
    keys, workers = keys[away], workers[away]
    named = np.full(keys.size, state.n_reports[0]) if named_in is None else named_in[away]
    table = key_table(_room_for(keys.size))
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
