"""What a plan is made from: vectors of keys with equal owner, home, cost and state size.

The paper's vector is (d′, d, d^h, v_c, v_S, #). Here d is `owners`, d^h `homes`, v_c `costs`, v_S
`sizes`, # `counts`; where keys go next, d′, is what the phases find out. In the full form each
key is a vector of its own. In the compact form costs and sizes are discretised, so that many keys
share a vector, and a plan says how many of them go where, not which.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import I64, Floats, Ints, Keys, SmallInts, Words, Workers
from skewless.kernels.key_table import ABSENT, KeyTable, find_slot, key_table
from skewless.plumbing.compiling import kernel
from skewless.strategies.mixed.discretisation import discretise
from skewless.strategies.mixed.ordering import descending_order, migration_priority

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Orders:
    """The orders of all keys that a plan needs; each is computed once, at its first use."""

    costs: Floats
    sizes: Floats

    @cached_property
    def by_cost(self) -> SmallInts:
        """From the largest cost to the smallest."""
        return descending_order(self.costs)

    @cached_property
    def by_size(self) -> SmallInts:
        """From the largest state to the smallest."""
        return descending_order(self.sizes)

    def by_priority(self, beta: float | None) -> SmallInts:
        """From the key that leaves first to the one that leaves last."""
        if beta is None:
            return self.by_cost
        if beta not in self._by_beta:
            priorities = migration_priority(self.costs, self.sizes, beta)
            self._by_beta[beta] = descending_order(priorities)
        return self._by_beta[beta]

    @cached_property
    def _by_beta(self) -> dict[float, SmallInts]:
        return {}


class Observed(NamedTuple):
    """The reported keys, one entry each: what all algorithms begin with."""

    keys: Keys  # ascending
    costs: Floats  # c
    sizes: Floats  # S
    owners: Workers  # F
    homes: Workers  # h
    rest: Floats  # by worker: load of keys that are not reported, and of pinned ones
    pinned: Flags | None = None  # keys that no plan moves; None: there are none
    orders: Orders | None = None  # of the costs above and what goes with them, made once

    def movable_by_cost(self) -> SmallInts:
        """Return the places of the keys that are not pinned, from the largest cost down."""
        by_cost = (self.orders or Orders(self.costs, self.sizes)).by_cost
        return by_cost if self.pinned is None else by_cost[~self.pinned[by_cost]]


class Vectors(NamedTuple):
    """Keys that are alike for the plan, one entry per kind."""

    costs: Floats
    sizes: Floats
    owners: Workers
    homes: Workers
    counts: SmallInts
    of_key: SmallInts  # the vector of each observed key
    orders: Orders | None = None  # where a vector is a key


def full(observed: Observed) -> Vectors:
    """Return one vector per key, with a count of 0 if the key is pinned."""
    n = observed.keys.size
    counts = np.ones(n, np.int32)
    if observed.pinned is not None:
        counts[observed.pinned] = 0
    _, costs, sizes, owners, homes, *_ = observed
    of_key = np.arange(n, dtype=np.int32)
    return Vectors(costs, sizes, owners, homes, counts, of_key, observed.orders)


@kernel
def _number(codes: Words, table: KeyTable, numbers: SmallInts, first: Ints) -> I64:
    """Number the distinct codes in the order in which they come; return how many there are."""
    found = 0
    for i in range(codes.size):
        slot = find_slot(table, codes[i])
        if table.values[slot] == ABSENT:
            table.keys[slot] = codes[i]
            table.values[slot] = found
            first[found] = i
            found += 1
        numbers[i] = table.values[slot]
    return found


def _numbered(codes: Words) -> tuple[SmallInts, Ints]:
    numbers = np.empty(codes.size, np.int32)
    first = np.empty(codes.size, np.int64)
    n_distinct = _number(codes, key_table(codes.size), numbers, first)
    return numbers, first[:n_distinct]


def compact(observed: Observed, degree: int, n_workers: int) -> Vectors:
    """Return the vectors of discretised keys, in the order of their first keys.

    Errors cancel within each worker, as if its keys were discretised alone.
    """
    values = observed.costs
    if observed.pinned is not None:
        values = np.where(observed.pinned, 0.0, values)  # other keys must not cancel their errors
    orders = observed.orders or Orders(observed.costs, observed.sizes)
    costs, cost_unit = discretise(values, degree, observed.owners, orders.by_cost)
    sizes, size_unit = discretise(observed.sizes, degree, observed.owners, orders.by_size)
    pairs, _ = _numbered((costs.astype(np.uint64) << np.uint64(32)) | sizes.astype(np.uint64))
    n = np.uint64(n_workers)
    codes = (pairs.astype(np.uint64) * n + observed.owners.astype(np.uint64)) * n
    of_key, first = _numbered(codes + observed.homes.astype(np.uint64))
    return Vectors(
        costs[first] * cost_unit,
        sizes[first] * size_unit,
        observed.owners[first],
        observed.homes[first],
        _n_keys(of_key, observed.pinned, first.size),
        of_key,
    )


def _n_keys(of_key: SmallInts, pinned: Flags | None, n_vectors: int) -> SmallInts:
    """Count the keys of each vector that a plan may move."""
    movable = of_key if pinned is None else of_key[~pinned]
    return np.bincount(movable, minlength=n_vectors).astype(np.int32)
