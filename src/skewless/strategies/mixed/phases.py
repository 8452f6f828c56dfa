"""One attempt at a plan, in three phases: clean the table, prepare candidates, assign them.

The algorithms of Mixed differ in how many keys they clean (n) and in their order of priority (ψ),
and share the rest. What does not depend on n is done once, in `problem`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays import Floats, Ints, SmallInts, Workers
from skewless.plumbing.compiling import kernel
from skewless.strategies.mixed.compact_representation import Observed, Orders, Vectors
from skewless.strategies.mixed.goals import Goals, donor_limits, worker_loads
from skewless.strategies.mixed.llfd import (
    Items,
    Lists,
    Placements,
    assign,
    list_by_worker,
    prepare,
    start_balance,
)
from skewless.strategies.mixed.ordering import migration_priority


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
    limits: Floats
    floors: Floats
    fair: Floats
    capacities: Floats


class Attempt(NamedTuple):
    """Where the keys of each item end up."""

    n_back: int
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
    orders = vectors.orders or Orders(vectors.costs, vectors.sizes)
    lightest = np.argsort(vectors.sizes[away], kind="stable")
    by_cost = _with_back(orders.by_cost, away)
    return Problem(
        vectors=vectors,
        vector=np.concatenate((np.arange(n_vectors), away)),
        costs=np.concatenate((vectors.costs, vectors.costs[away])),
        owners=np.concatenate((vectors.owners, vectors.homes[away])),
        in_table=away[lightest],
        back=lightest + n_vectors,
        by_cost=by_cost,
        by_priority=by_cost if beta is None else _with_back(orders.by_priority(beta), away),
        rest=rest,
        limits=goals.limits,
        floors=goals.floors,
        fair=goals.fair,
        capacities=capacities,
    )


def _with_back(order: SmallInts, away: Ints) -> SmallInts:
    """Return the order of all items, where an item of keys moved back follows its vector."""
    if away.size == 0:
        return order
    back = np.full(order.size, -1, np.int32)
    back[away] = np.arange(order.size, order.size + away.size)
    out = np.empty(order.size + away.size, np.int32)
    _insert_back(order, back, out)
    return out


@kernel
def _insert_back(order: SmallInts, back: SmallInts, out: SmallInts) -> None:
    place = 0
    for vector in order:
        out[place] = vector
        place += 1
        if back[vector] >= 0:
            out[place] = back[vector]
            place += 1


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
    balance = start_balance(loads, problem.rest, problem.limits, problem.capacities)
    begins, ends = np.empty(n_workers, np.int64), np.empty(n_workers, np.int64)
    lists = Lists(np.empty(left.size, np.int32), begins, ends)
    list_by_worker(items, problem.by_priority, lists)
    down_to = np.empty(n_workers)
    donor_limits(loads, problem.limits, problem.floors, problem.fair, down_to)
    prepare(items, lists, balance, problem.floors, down_to)
    n_keys = int(vectors.counts.sum())
    placements = Placements(np.empty(n_keys, np.int64), np.empty(n_keys, np.int32))
    n_placed = int(assign(items, problem.by_cost, lists, balance, placements))
    placed, targets = placements.items[:n_placed], placements.targets[:n_placed]

    there = problem.vector[placed]
    away = targets != vectors.homes[there]
    moves = targets != vectors.owners[there]
    back_sizes = vectors.sizes[problem.in_table]
    state_moved = (left[problem.back] * back_sizes).sum() + vectors.sizes[there][moves].sum()
    is_within = (balance.loads <= problem.limits) & (balance.loads >= problem.floors)
    return Attempt(
        n_back=n_back,
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
