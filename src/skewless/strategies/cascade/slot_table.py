"""Slots between keys and workers: how a key finds its first worker, and all those after it.

The hash space is cut into slots, many per worker, and a table gives the owner of each slot. When
workers join, leave or change speed, as few slots as possible change owner. A key's order of workers
begins with the owner of its slot and continues by the key's stride.
"""

from __future__ import annotations

import math

import numpy as np

from skewless.arrays import Floats, Ints, Workers

#: Slots per worker at the start: how finely a worker's share can be set later.
SLOTS_PER_WORKER = 32


def slot_table(n_workers: int) -> Workers:
    """Return the owners of all slots: equal stretches, in order, as in the strategy `hash`."""
    owners: Workers = np.repeat(np.arange(n_workers, dtype=np.int32), SLOTS_PER_WORKER)
    return owners


def strides(n_workers: int) -> Ints:
    """Return the steps that visit all n workers once before they visit one again.

    >>> strides(6).tolist()
    [1, 5]
    """
    steps = range(1, max(2, n_workers))
    return np.array([step for step in steps if math.gcd(step, n_workers) == 1], np.int64)


def reassigned(owners: Workers, n_workers: int, capacities: Floats | None = None) -> Workers:
    """Return a table for other workers, with shares by capacity, that moves the fewest slots.

    >>> before = slot_table(3)
    >>> after = reassigned(before, 4)
    >>> np.bincount(after).tolist(), sorted(set(after[after != before].tolist()))
    ([24, 24, 24, 24], [3])
    """
    if n_workers > owners.size:
        raise ValueError(
            f"n_workers must be at most {owners.size}, {SLOTS_PER_WORKER} times as many as at the "
            f"start, not {n_workers}"
        )
    speeds = np.ones(n_workers) if capacities is None else np.asarray(capacities, np.float64)
    exact = owners.size * speeds / speeds.sum()
    wanted = np.floor(exact).astype(np.int64)
    largest_remainders = np.argsort(wanted - exact, kind="stable")
    wanted[largest_remainders[: owners.size - int(wanted.sum())]] += 1

    table: Workers = owners.copy()
    held = np.bincount(owners, minlength=n_workers)
    free = []
    for worker in range(held.size):
        surplus = int(held[worker] - (wanted[worker] if worker < n_workers else 0))
        if surplus > 0:
            free.append(np.flatnonzero(owners == worker)[-surplus:])
    slots = np.sort(np.concatenate([np.empty(0, np.int64), *free]))
    missing = np.maximum(wanted - held[:n_workers], 0)
    # Dealt in turn, so that each new worker gets slots from the whole range.
    takers = np.repeat(np.arange(n_workers), missing)
    turn = np.concatenate([np.arange(m) / max(m, 1) for m in missing])
    table[slots] = takers[np.lexsort((takers, turn))].astype(np.int32)
    return table
