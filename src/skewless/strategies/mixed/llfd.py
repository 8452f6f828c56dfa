"""Least-Load Fit Decreasing: the heaviest key first, to the least loaded worker that takes it.

A worker takes a candidate when it fits, or fits after lighter keys made room; those become
candidates themselves. Candidates are taken in falling order and only lighter ones are added, so
one walk over all keys by cost is enough: what it has passed never moves again. Three things
follow. A key that made room for no other is out of reach as soon as the walk is at or below its
cost, so each worker's list by priority is read once, too. What a worker cannot give up any more
is a running sum, so whether enough can make room is one comparison. And the first worker in
ascending order of load that says yes is the least loaded of those that say yes.

Items are kinds of keys with a number of keys each (one each in the full form).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays import F64, I64, Floats, Ints, SmallInts, Workers
from skewless.kernels.least_loaded import LoadTree, least, load_tree, update
from skewless.plumbing.compiling import kernel

_NO_WORKER = -1


class Items(NamedTuple):
    """Kinds of keys, and how many of each are where."""

    costs: Floats
    owners: Workers  # where the keys of `left` are
    left: SmallInts  # keys still with their owner
    taken: SmallInts  # keys that became candidates (the paper's C)


class Lists(NamedTuple):
    """Per worker, its items in order of priority; items before the cursor are done with."""

    items: SmallInts
    cursors: Ints
    ends: Ints


class Balance(NamedTuple):
    """The workers' loads as the plan changes them."""

    loads: Floats
    fixed: Floats  # the part that no later candidate may push out
    limits: Floats  # L_max of each worker
    capacities: Floats
    tree: LoadTree  # loads / capacities


class Placements(NamedTuple):
    """Candidates in the order in which they were placed: keys of this item to this target."""

    items: Ints
    targets: SmallInts


@kernel
def list_by_worker(items: Items, by_priority: SmallInts, lists: Lists) -> None:
    """Fill the lists: `by_priority` cut by owner, without items of which no key is left."""
    lists.ends[:] = 0
    for item in range(items.owners.size):
        lists.ends[items.owners[item]] += items.left[item] > 0
    begin = 0
    for worker in range(lists.ends.size):
        lists.cursors[worker] = begin
        begin += lists.ends[worker]
        lists.ends[worker] = lists.cursors[worker]
    for item in by_priority:
        if items.left[item] > 0:
            worker = items.owners[item]
            lists.items[lists.ends[worker]] = item
            lists.ends[worker] += 1


@kernel
def _take_one(items: Items, item: I64, balance: Balance, worker: I64) -> None:
    items.left[item] -= 1
    items.taken[item] += 1
    balance.loads[worker] -= items.costs[item]


@kernel
def prepare(items: Items, lists: Lists, balance: Balance, floors: Floats, down_to: Floats) -> None:
    """Phase II: overloaded workers give up keys by priority until they are not.

    Where others have too little, workers within their limits give as well, `down_to` a load. They
    pass over keys without which they would have too little themselves.
    """
    for worker in range(balance.loads.size):
        while balance.loads[worker] > balance.limits[worker]:
            if lists.cursors[worker] == lists.ends[worker]:
                break
            item = np.int64(lists.items[lists.cursors[worker]])
            _take_one(items, item, balance, worker)
            if items.left[item] == 0:
                lists.cursors[worker] += 1
        place = lists.cursors[worker]
        while balance.loads[worker] > down_to[worker] and place < lists.ends[worker]:
            item = np.int64(lists.items[place])
            # Keys without load fill no worker.
            helps = 0.0 < items.costs[item] <= balance.loads[worker] - floors[worker]
            if helps and items.left[item] > 0:
                _take_one(items, item, balance, worker)
            else:
                place += 1
        update(balance.tree, worker, balance.loads[worker] / balance.capacities[worker])


@kernel
def _worker_for(cost: F64, balance: Balance) -> I64:
    """Return the least loaded worker for which Adjust is true, or none (Alg. 1, l. 4–5).

    Room can be made exactly when what must stay leaves enough (conditions ii and iii).
    """
    best = np.int64(least(balance.tree))
    if balance.fixed[best] + cost <= balance.limits[best]:
        return best
    best = _NO_WORKER
    for worker in range(balance.loads.size):
        if balance.fixed[worker] + cost <= balance.limits[worker] and (
            best == _NO_WORKER or balance.tree.loads[worker] < balance.tree.loads[best]
        ):
            best = worker
    return best


@kernel
def _worker_without_room(own: I64, balance: Balance) -> I64:
    """Return where a candidate goes that no worker takes: it stays, or goes to the least loaded.

    It stays with a worker that has no more than its share of what is assigned so far: the bound
    of Simple needs no more than that, and a key too large for all does not move for nothing.
    """
    assigned, speed = 0.0, 0.0
    for worker in range(balance.loads.size):  # numpy's sum adds in another order than numba's
        assigned += balance.loads[worker]
        speed += balance.capacities[worker]
    if balance.tree.loads[own] * speed <= assigned:
        return own
    return np.int64(least(balance.tree))


@kernel
def _make_room(items: Items, lists: Lists, balance: Balance, cost: F64, worker: I64) -> I64:
    """Take the exchangeable set: lighter keys by priority until `cost` fits (l. 14–17).

    Return how many keys that are.
    """
    n_taken = 0
    while balance.loads[worker] + cost > balance.limits[worker]:
        if lists.cursors[worker] == lists.ends[worker]:
            break
        item = np.int64(lists.items[lists.cursors[worker]])
        if items.left[item] == 0 or items.costs[item] >= cost:
            lists.cursors[worker] += 1  # not lighter than this candidate, nor than any later one
        else:
            _take_one(items, item, balance, worker)
            n_taken += 1
    return n_taken


@kernel
def assign(
    items: Items, by_cost: SmallInts, lists: Lists, balance: Balance, placements: Placements
) -> I64:
    """Phase III, Alg. 1: place all candidates, heaviest first; return how many there were."""
    placed = 0
    passed = 0
    n_candidates = 0
    for item in range(items.taken.size):
        n_candidates += items.taken[item]
    for item in by_cost:  # l. 3
        if placed == n_candidates:
            break
        if items.taken[item] == 0:
            continue
        cost = items.costs[item]
        while passed < by_cost.size and items.costs[by_cost[passed]] >= cost:
            other = by_cost[passed]
            balance.fixed[items.owners[other]] += items.left[other] * items.costs[other]
            passed += 1
        for _ in range(items.taken[item]):
            worker = _worker_for(cost, balance)
            if worker == _NO_WORKER:
                worker = _worker_without_room(np.int64(items.owners[item]), balance)
            else:
                n_candidates += _make_room(items, lists, balance, cost, worker)
            balance.loads[worker] += cost  # l. 8
            balance.fixed[worker] += cost
            update(balance.tree, worker, balance.loads[worker] / balance.capacities[worker])
            placements.items[placed] = item
            placements.targets[placed] = worker
            placed += 1
    return placed


def start_balance(loads: Floats, rest: Floats, limits: Floats, capacities: Floats) -> Balance:
    """Return the balance of workers with these loads, before the plan changes anything.

    `rest` is the part of the loads that no plan can move.
    """
    return Balance(loads, rest.copy(), limits, capacities, load_tree(loads / capacities))
