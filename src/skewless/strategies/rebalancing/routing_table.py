"""Where keys live: a table of exceptions over a consistent-hash ring, and what routing needs of it.

A key in the table goes to the worker that the table names, every other key to its owner on the
ring (eq. 1 of Mixed). Routing reads it and never writes; only a rebalance or a rescale does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless._jit import kernel
from skewless.arrays import I32, U64, Floats, Ints, Keys, Words, Workers
from skewless.kernels.hashing import seed_array, seeded
from skewless.kernels.key_table import ABSENT, KeyTable, find_slot, key_table
from skewless.kernels.ring import Ring, ring
from skewless.sound import require_same, require_that, require_within
from skewless.strategy import Moves

_SPARSE = 1 << 13  # keys, which take 200 KB


class TableState(NamedTuple):
    """The ring, the table, and how many entries the table has."""

    seeds: Words  # of keys, of the ring's points
    capacities: Floats  # relative speed of each worker
    ring: Ring
    table: KeyTable  # key -> worker, only where that is not the ring's
    n_entries: Ints

    @property
    def grows(self) -> tuple[str, ...]:
        """The fields that a controller makes as long as it needs them."""
        return "table.keys", "table.values"

    def check(self, fresh: TableState) -> None:
        """Refuse another ring, and workers that are not there."""
        require_same("seeds", self.seeds, fresh.seeds)
        require_same("capacities", self.capacities, fresh.capacities)
        require_within("table", self.table.values, ABSENT, self.capacities.size - 1)
        n_entries = np.count_nonzero(self.table.values != ABSENT)
        require_that(self.n_entries[0] == n_entries, "n_entries must count the keys of the table")


@kernel
def _home(ring: Ring, hashed: U64) -> I32:
    """Return the owner on the ring.

    Most buckets of the ring have at most two points. Stepping over them without a branch is worth
    it: whether there is a point before a hash is a coin toss that no processor predicts.
    """
    point = np.int64(ring.first[np.int64(hashed >> ring.shift[0])])
    point += ring.positions[point] < hashed
    point += ring.positions[point] < hashed
    while ring.positions[point] < hashed:
        point += 1
    return ring.workers[point]


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
def _fill(table: KeyTable, keys: Keys, workers: Workers) -> None:
    for i in range(keys.size):
        slot = find_slot(table, keys[i])
        table.keys[slot] = keys[i]
        table.values[slot] = workers[i]


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


def entries(state: TableState) -> tuple[Keys, Workers]:
    """Return the keys of the table, ascending, and their workers.

    How many there are, the paper's N_A, is `state.n_entries[0]`.
    """
    used = np.flatnonzero(state.table.values != ABSENT)
    order = used[np.argsort(state.table.keys[used])]
    return state.table.keys[order], state.table.values[order]


def start_table(n_workers: int, seed: int, virtual_nodes: int) -> TableState:
    """Return the ring with an empty table."""
    seeds = seed_array(seed, 2)
    return TableState(
        seeds,
        np.ones(n_workers),
        ring(n_workers, int(seeds[1]), virtual_nodes=virtual_nodes),
        key_table(0),
        np.zeros(1, np.int64),
    )


def _room_for(n_entries: int) -> int:
    """Return for how many keys the table is made.

    A small table gets room to spare: a key that is not in it then finds an empty slot at once.
    """
    return max(n_entries, min(8 * n_entries, _SPARSE))


def with_entries(state: TableState, keys: Keys, workers: Workers) -> TableState:
    """Return the state whose table says this, without what the ring says anyway."""
    away = homes(keys, state) != workers
    keys, workers = keys[away], workers[away]
    table = key_table(_room_for(keys.size))
    _fill(table, keys, workers)
    return state._replace(table=table, n_entries=np.array([keys.size]))


def rescaled(
    state: TableState, n_workers: int, virtual_nodes: int, capacities: Floats | None
) -> TableState:
    """Return the state for other workers; entries of workers that are gone fall to the ring."""
    speeds = np.ones(n_workers) if capacities is None else np.asarray(capacities, np.float64)
    points = ring(
        n_workers,
        int(state.seeds[1]),
        virtual_nodes=virtual_nodes,
        capacities=speeds,
        unit=float(state.ring.unit[0]),
    )
    keys, workers = entries(state)
    stays = workers < n_workers
    return with_entries(state._replace(ring=points, capacities=speeds), keys[stays], workers[stays])


def moved(
    state: TableState,
    keys: Keys,
    key_homes: Workers,
    origins: Workers,
    targets: Workers,
    kept: tuple[Keys, Workers],
) -> tuple[TableState, Moves]:
    """Return the state in which `keys` live at `targets`, and the keys that move: Δ(F, F′).

    `kept` are the entries of other keys that stay in the table.
    """
    away = targets != key_homes
    in_table = np.concatenate((keys[away], kept[0]))
    workers = np.concatenate((targets[away], kept[1]))
    moving = np.flatnonzero(origins != targets)
    moves = Moves(keys[moving], origins[moving], targets[moving])
    return with_entries(state, in_table, workers), moves


def unreported(state: TableState, keys: Keys) -> tuple[Keys, Workers]:
    """Return the entries of the table whose keys are not among `keys`, which are ascending."""
    known, workers = entries(state)
    others = ~is_among(known, keys)
    return known[others], workers[others]


def is_among(few: Keys, keys: Keys) -> NDArray[np.bool_]:
    """Return which of `few` are among `keys`, which are ascending."""
    places = np.searchsorted(keys, few)
    found: NDArray[np.bool_] = keys[np.minimum(places, keys.size - 1)] == few
    return found
