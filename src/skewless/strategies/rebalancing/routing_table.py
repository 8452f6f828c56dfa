"""Where keys live: a table of exceptions over a consistent-hash ring, and what routing needs of it.

A key in the table goes to the worker that the table names, every other key to its owner on the
ring (eq. 1 of Mixed). Routing reads it and never writes; only a rebalance or a rescale does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless._jit import kernel
from skewless.arrays import Floats, Ints, Keys, Words, Workers
from skewless.kernels.hashing import seed_array, seeded
from skewless.kernels.key_table import ABSENT, KeyTable, find_slot, key_table
from skewless.kernels.ring import Ring, owner, ring
from skewless.strategy import Moves


class TableState(NamedTuple):
    """The ring, the table, and how many entries the table has."""

    seeds: Words  # of keys, of the ring's points
    capacities: Floats  # relative speed of each worker
    ring: Ring
    table: KeyTable  # key -> worker, only where that is not the ring's
    n_entries: Ints


@kernel
def route_by_table(keys: Keys, state: TableState, out: Workers) -> None:
    """Fill `out` with the worker of each key."""
    seed = state.seeds[0]
    for i in range(keys.size):
        worker = state.table.values[find_slot(state.table, keys[i])]
        if worker == ABSENT:
            worker = owner(state.ring, seeded(keys[i], seed))
        out[i] = worker


@kernel
def _homes(keys: Keys, state: TableState, out: Workers) -> None:
    for i in range(keys.size):
        out[i] = owner(state.ring, seeded(keys[i], state.seeds[0]))


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


def with_entries(state: TableState, keys: Keys, workers: Workers) -> TableState:
    """Return the state whose table says this, without what the ring says anyway."""
    away = homes(keys, state) != workers
    table = key_table(int(away.sum()))
    _fill(table, keys[away], workers[away])
    return state._replace(table=table, n_entries=np.array([int(away.sum())]))


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
    return with_entries(
        state._replace(ring=points, capacities=speeds), keys[stays], workers[stays]
    )


def moved(
    state: TableState,
    keys: Keys,
    origins: Workers,
    targets: Workers,
    keep_unreported: bool,
) -> tuple[TableState, Moves]:
    """Return the state in which `keys` live at `targets`, and the keys that move: Δ(F, F′).

    `keep_unreported` says what becomes of entries whose keys are not among `keys`.
    """
    if keep_unreported:
        known, workers = entries(state)
        others = ~np.isin(known, keys, assume_unique=True)
        all_keys = np.concatenate((keys, known[others]))
        all_workers = np.concatenate((targets, workers[others]))
    else:
        all_keys, all_workers = keys, targets
    away = np.flatnonzero(origins != targets)
    moves = Moves(keys[away], origins[away], targets[away])
    return with_entries(state, all_keys, all_workers), moves
