"""One attempt at a plan, in three phases: clean the table, prepare candidates, assign them.

The algorithms of Mixed differ in how many keys they clean (n) and in their order of priority (ψ),
and share the rest. What does not depend on n is done once, in `problem`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays import F64, I64, Floats, Ints, SmallInts, Workers
from skewless.kernels.least_loaded import LoadTree, least, load_tree, update
from skewless.plumbing.compiling import kernel
from skewless.strategies.mixed.compact_representation import (
    Observed,
    Vectors,
    migration_priority,
)
from skewless.strategies.mixed.goals import Goals, donor_limits, worker_loads

_NO_WORKER = -1


class Items(NamedTuple):
    """Kinds of keys (in the full form, keys), and how many of each are where."""

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
    items: Items, by_cost: SmallInts, lists: Lists, balance: Balance, moved: Ints, to: SmallInts
) -> I64:
    """Phase III, Alg. 1 (LLFD): place all candidates, heaviest first; return how many there were.

    Fill `moved` with their items and `to` with their targets, in the order of their placement.

    A worker takes a candidate when it fits, or fits after lighter keys made room; those become
    candidates themselves. Candidates are taken in falling order and only lighter ones are added, so
    one walk over all keys by cost is enough: what it has passed never moves again. Three things
    follow. A key that made room for no other is out of reach as soon as the walk is at or below its
    cost, so each worker's list by priority is read once, too. What a worker cannot give up any more
    is a running sum, so whether enough can make room is one comparison. And the first worker in
    ascending order of load that says yes is the least loaded of those that say yes.
    """
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
            moved[placed] = item
            to[placed] = worker
            placed += 1
    return placed


class Problem(NamedTuple):
    """The vectors cut into items, with their orders.

    Every vector is an item: its keys where they live. After them, every vector of the table is
    an item once more: those of its keys that the cleaning phase moved back home.
    """

    vectors: Vectors
    vector: Ints  # of each item
    costs: Floats
    owners: Workers
    in_table: Ints  # items of the table, the smallest state first (the paper's η)
    back: Ints  # for each of those, the item of its keys moved back
    by_cost: SmallInts
    by_priority: SmallInts
    rest: Floats  # load of each worker that stays where it is
    goals: Goals
    capacities: Floats


class Attempt(NamedTuple):
    """Where the keys of each item end up."""

    left: SmallInts
    placed: Ints  # the item of each placement
    targets: SmallInts
    n_entries: int  # N_A′
    state_moved: float  # M
    is_balanced: bool


def problem(
    vectors: Vectors, beta: float | None, capacities: Floats, rest: Floats, goals: Goals
) -> Problem:
    """Build the items that all attempts share; β of the priority, or None: highest cost first.

    `rest` is the load of each worker that no vector accounts for.
    """
    n_vectors = vectors.costs.size
    away = np.flatnonzero(vectors.owners != vectors.homes)
    lightest = np.argsort(vectors.sizes[away], kind="stable")
    by_cost = _with_back(vectors.orders.by_cost, away)
    return Problem(
        vectors=vectors,
        vector=np.concatenate((np.arange(n_vectors), away)),
        costs=np.concatenate((vectors.costs, vectors.costs[away])),
        owners=np.concatenate((vectors.owners, vectors.homes[away])),
        in_table=away[lightest],
        back=lightest + n_vectors,
        by_cost=by_cost,
        by_priority=by_cost if beta is None else _with_back(vectors.orders.by_priority(beta), away),
        rest=rest,
        goals=goals,
        capacities=capacities,
    )


def _with_back(order: SmallInts, away: Ints) -> SmallInts:
    """Return the order of all items, where an item of keys moved back follows its vector."""
    back = np.full(order.size, -1, np.int32)
    back[away] = np.arange(order.size, order.size + away.size)
    followers = back[order]
    places = np.flatnonzero(followers >= 0)
    return np.insert(order, places + 1, followers[places])


def attempt(problem: Problem, n_back: int) -> Attempt:
    """Return the plan after moving back the `n_back` lightest keys of the table (or all)."""
    vectors, n_workers = problem.vectors, problem.capacities.size
    left = np.concatenate((vectors.counts, np.zeros(problem.back.size, np.int32)))
    if n_back > 0:  # Phase I
        # The first `n_back` keys of the table, vector by vector: of each vector, what those before
        # it leave of `n_back`.
        counts = left[problem.in_table]
        back = np.clip(n_back - (np.cumsum(counts) - counts), 0, counts).astype(np.int32)
        left[problem.in_table] -= back
        left[problem.back] += back

    items = Items(problem.costs, problem.owners, left, np.zeros(left.size, np.int32))
    loads = worker_loads(problem.owners, left * problem.costs, n_workers) + problem.rest
    tree = load_tree(loads / problem.capacities)
    balance = Balance(loads, problem.rest.copy(), problem.goals.limits, problem.capacities, tree)
    begins, ends = np.empty(n_workers, np.int64), np.empty(n_workers, np.int64)
    lists = Lists(np.empty(left.size, np.int32), begins, ends)
    list_by_worker(items, problem.by_priority, lists)
    down_to = donor_limits(loads, problem.goals)
    prepare(items, lists, balance, problem.goals.floors, down_to)
    n_keys = int(vectors.counts.sum())
    placed, targets = np.empty(n_keys, np.int64), np.empty(n_keys, np.int32)
    n_placed = int(assign(items, problem.by_cost, lists, balance, placed, targets))
    placed, targets = placed[:n_placed], targets[:n_placed]

    there = problem.vector[placed]
    away = targets != vectors.homes[there]
    moves = targets != vectors.owners[there]
    back_sizes = vectors.sizes[problem.in_table]
    state_moved = (left[problem.back] * back_sizes).sum() + vectors.sizes[there][moves].sum()
    is_within = (balance.loads <= problem.goals.limits) & (balance.loads >= problem.goals.floors)
    return Attempt(
        left=left,
        placed=placed,
        targets=targets,
        n_entries=int(left[problem.in_table].sum() + away.sum()),
        state_moved=float(state_moved),
        is_balanced=bool(is_within.all()),
    )


def new_owners(problem: Problem, plan: Attempt, observed: Observed, beta: float | None) -> Workers:
    """Return where each observed key lives by the plan (F′).

    Where the plan moves some keys of a vector, it means those of the highest priority.
    """
    vectors = problem.vectors
    n_back = plan.left[problem.back]
    back_homes = vectors.homes[problem.in_table]
    vector = np.concatenate((np.repeat(problem.in_table, n_back), problem.vector[plan.placed]))
    targets = np.concatenate((np.repeat(back_homes, n_back), plan.targets))
    moves = targets != vectors.owners[vector]
    vector, targets = vector[moves], targets[moves]
    owners: Workers = observed.owners.copy()
    if vectors.costs.size == observed.keys.size:  # a vector is a key
        owners[vector] = targets
        return owners

    targets = targets[np.argsort(vector, kind="stable")]
    n_moving = np.bincount(vector, minlength=vectors.costs.size)
    may_move = n_moving[vectors.of_key] > 0
    if observed.pinned is not None:
        may_move &= ~observed.pinned
    keys = np.flatnonzero(may_move)
    priorities = migration_priority(observed.costs[keys], observed.sizes[keys], beta)
    keys = keys[np.lexsort((-priorities, vectors.of_key[keys]))]  # ties: the first key first
    of_key = vectors.of_key[keys]
    begins = np.searchsorted(of_key, of_key)
    chosen = keys[np.arange(keys.size) - begins < n_moving[of_key]]
    owners[chosen] = targets
    return owners
