"""What both strategies of Cascade share: each key's order of workers, and what follows from it.

The hash space is cut into slots, many per worker. When workers join, leave or change speed, as few
slots as possible change owner. A key's order of workers begins with the owner of its slot and
continues by the key's stride.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from skewless.arrays import F64, I64, U64, Floats, Ints, Keys, Workers, read_only
from skewless.kernels.hashing import hashed_workers, to_worker, two_workers
from skewless.parameters import check_types, require, require_all_stay
from skewless.plumbing.compiling import kernel
from skewless.state import copy_state

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


def reassigned(owners: Workers, speeds: Floats) -> Workers:
    """Return a table for workers of these speeds, with shares by speed; the fewest slots move.

    >>> before = slot_table(3)
    >>> after = reassigned(before, np.ones(4))
    >>> np.bincount(after).tolist(), sorted(set(after[after != before].tolist()))
    ([24, 24, 24, 24], [3])
    """
    n_workers = speeds.size
    if n_workers > owners.size:
        raise ValueError(
            f"n_workers must be at most {owners.size}, {SLOTS_PER_WORKER} times as many as at the "
            f"start, not {n_workers}"
        )
    exact = owners.size * speeds / speeds.sum()
    wanted = np.zeros(max(n_workers, int(owners.max()) + 1), np.int64)
    wanted[:n_workers] = np.floor(exact)
    largest_remainders = np.argsort(wanted[:n_workers] - exact, kind="stable")
    wanted[largest_remainders[: owners.size - int(wanted.sum())]] += 1

    surplus = np.bincount(owners, minlength=wanted.size) - wanted
    free = [np.flatnonzero(owners == worker)[-n:] for worker, n in enumerate(surplus) if n > 0]
    slots = np.sort(np.concatenate([np.empty(0, np.int64), *free]))
    missing = np.maximum(-surplus, 0)
    # Dealt in turn, so that each new worker gets slots from the whole range.
    takers = np.repeat(np.arange(missing.size), missing)
    turn = np.concatenate([np.arange(m) / max(m, 1) for m in missing])
    table: Workers = owners.copy()
    table[slots] = takers[np.lexsort((takers, turn))]
    return table


def resized(values: Floats, n_workers: int, of_new: float) -> Floats:
    """Return one value per worker, for another number of them."""
    kept = values[:n_workers]
    return np.append(kept, np.full(n_workers - kept.size, of_new))


@kernel
def slot_of(hashed: U64, n_slots: I64) -> I64:
    """Return the slot, or the spot, of a key: with equal stretches, the worker of `hash`."""
    return np.int64(to_worker(hashed, n_slots))


@kernel
def home_of(state: Any, hashed: U64) -> I64:
    """Return the first worker in the order of a key."""
    return np.int64(state.owners[slot_of(hashed, state.owners.size)])


@kernel
def stride_of(state: Any, hashed: U64) -> I64:
    """Return the stride of a key, from the half of its hash that does not give its slot."""
    _, number = two_workers(hashed, state.strides.size)
    return state.strides[np.int64(number)]


@kernel
def following(worker: I64, stride: I64, n_workers: I64) -> I64:
    """Return the next worker of an order."""
    worker += stride
    return worker - n_workers if worker >= n_workers else worker


@kernel
def weight_of(weights: Floats | None, i: I64) -> F64:
    """Return the weight of record i; without weights, 1, which is a constant to the compiler."""
    if weights is None:
        return 1.0
    return weights[i]


class InOrders:
    """What both strategies do alike.

    A strategy adds `_route_records`, its loop; `_clock`, the counter that shows whether a source
    has sent anything; and what is different in a rescale (`_mean_level`, `_rescaled`) and in a fork
    that is late (`_continued`).
    """

    _clock: ClassVar[str]

    def __post_init__(self: Any) -> None:
        check_types(self)
        require(self, "tolerance", 0 < self.tolerance < math.inf, "a finite number above 0")

    def route(self: Any, keys: Keys, state: Any, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        self._route_records(read_only(keys), None, state, out)

    def route_weighted(self: Any, keys: Keys, weights: Floats, state: Any, out: Workers) -> None:
        """Fill `out` with the worker of each record, where a record costs its weight."""
        self._route_records(read_only(keys), read_only(weights), state, out)

    def homes(self, keys: Keys, state: Any) -> Workers:
        """Return the first worker in the order of each key."""
        homes: Workers = state.owners[hashed_workers(keys, state.seed, state.owners.size)]
        return homes

    def rescale(self: Any, state: Any, n_workers: int, capacities: Floats | None = None) -> Any:
        """Return the state for other workers; the fewest possible slots change owner.

        A worker that joins begins at the mean, so that it is not flooded.
        """
        require_all_stay(self.name, capacities)
        speeds = np.ones(n_workers) if capacities is None else np.asarray(capacities, np.float64)
        rescaled = copy_state(state)._replace(
            owners=reassigned(state.owners, speeds),
            strides=strides(n_workers),
            costs=speeds.mean() / speeds,
            levels=resized(state.levels, n_workers, self._mean_level(state)),
        )
        return self._rescaled(rescaled, speeds)

    def wait(self, state: Any) -> None:
        """Note that a copy of `state` has been sent: the merge does not include what follows."""
        state.counters[0]["awaiting"] = 1 + state.counters[0][self._clock]

    def merge(self: Any, states: Sequence[Any]) -> Any:
        """Return the merged state: counts and levels are means, as every source gets a copy.

        With sums, every merge would count the earlier ones again, and all sources would make up for
        the same worker at once.
        """
        return self.merge_condensed([self.condense(state) for state in states], states[0])

    def fork(self: Any, merged: Any, own: Any, source: int) -> Any:
        """Return the state with which a source continues: `merged`, unless that came late.

        It came late if the source has sent records since its message: `merged` lacks them. The
        source then keeps its own levels, which include them. If each source balances its own
        records, their sum is balanced. Each key gets the larger count.
        """
        if own.counters[0]["awaiting"] in (0, 1 + own.counters[0][self._clock]):
            return copy_state(merged)
        return self._continued(merged, own)
