"""One attempt at a plan, in three phases: clean the table, prepare candidates, assign them.

The algorithms of Mixed differ in how many keys they clean (n) and in their order of priority (ψ),
and share the rest. What does not depend on n is done once, in `problem`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless._jit import kernel
from skewless.arrays import F64, Floats, Ints, SmallInts, Workers
from skewless.strategies.rebalancing.goals import Goals, donor_limits, worker_loads
from skewless.strategies.rebalancing.llfd import (
    Items,
    Lists,
    Placements,
    assign,
    list_by_worker,
    prepare,
    start_balance,
)
from skewless.strategies.rebalancing.ordering import descending_order
from skewless.strategies.rebalancing.vectors import Observed, Vectors


@kernel
def _migration_priority(costs: Floats, sizes: Floats, beta: F64, out: Floats) -> None:
    for i in range(costs.size):
        if costs[i] <= 0.0:
            out[i] = 0.0
        elif sizes[i] <= 0.0:
            out[i] = np.inf  # it costs nothing to move
        else:
            out[i] = costs[i] ** beta / sizes[i]


def migration_priority(costs: Floats, sizes: Floats, beta: float | None) -> Floats:
    """Return γ = c^β / S of each key; with no β, the cost alone (ψ of MinTable)."""
    if beta is None:
        return costs
    out = np.empty(costs.size)
    _migration_priority(costs, sizes, float(beta), out)
    return out


class Problem(NamedTuple):
    """The vectors cut into items, with their orders.

    A vector of the table is two items in a row: its keys where they live, and those of them that
    the cleaning phase moved back home.
    """

    vectors: Vectors
    vector: Ints  # of each item
    is_back: Ints  # 1: the item is for keys moved back
    costs: Floats
    owners: Workers
    in_table: Ints  # items of the table, the smallest state first (the paper's η)
    by_cost: Ints
    by_priority: Ints
    rest: Floats  # load of each worker that stays where it is
    limits: Floats
    floors: Floats
    fair: Floats
    capacities: Floats


class Attempt(NamedTuple):
    """Where the keys of each item end up."""

    n_back: int
    left: Ints
    placed: Ints  # the item of each placement
    targets: SmallInts
    n_entries: int  # N_A′
    state_moved: float  # M
    is_balanced: bool


def worker_limits(total: float, tolerance: float, capacities: Floats) -> Floats:
    """Return L_max of each worker: its fair share of `total`, and the tolerance θ_max on top."""
    limits: Floats = (1.0 + tolerance) * (total * capacities / capacities.sum())
    return limits


def problem(
    vectors: Vectors,
    beta: float | None,
    tolerance: float,
    capacities: Floats,
    rest: Floats | None = None,
    goals: Goals | None = None,
) -> Problem:
    """Return what all attempts share; β of the priority, or None for the highest cost first.

    `rest` is the load of each worker that no vector accounts for. Without goals, the limits are
    those of Alg. 1, and no worker has too little.
    """
    rest = np.zeros(capacities.size) if rest is None else rest
    total = float((vectors.costs * vectors.counts).sum()) + float(rest.sum())
    limits = worker_limits(total, tolerance, capacities) if goals is None else goals.limits
    none = np.zeros(capacities.size)
    away = vectors.owners != vectors.homes
    vector = np.repeat(np.arange(vectors.costs.size), 1 + away)
    is_back = np.zeros(vector.size, np.int64)
    is_back[1:] = vector[1:] == vector[:-1]
    costs = vectors.costs[vector]
    owners = np.where(is_back == 1, vectors.homes[vector], vectors.owners[vector])
    in_table = np.flatnonzero(away[vector] & (is_back == 0))
    sizes = vectors.sizes[vector]
    priorities = migration_priority(costs, sizes, beta)
    by_cost = descending_order(costs)
    return Problem(
        vectors,
        vector,
        is_back,
        costs,
        owners,
        in_table[np.argsort(sizes[in_table], kind="stable")],
        by_cost,
        by_cost if beta is None else descending_order(priorities),
        rest,
        limits,
        none if goals is None else goals.floors,
        limits if goals is None else goals.fair,
        capacities,
    )


def attempt(problem: Problem, n_back: int) -> Attempt:
    """Return the plan after moving back the `n_back` lightest keys of the table (or all)."""
    vectors, n_workers = problem.vectors, problem.capacities.size
    left = np.where(problem.is_back == 1, 0, vectors.counts[problem.vector])
    if n_back > 0:  # Phase I
        counts = left[problem.in_table]
        back = np.clip(n_back - (np.cumsum(counts) - counts), 0, counts)
        left[problem.in_table] -= back
        left[problem.in_table + 1] += back

    items = Items(problem.costs, problem.owners, left, np.zeros(left.size, np.int64))
    loads = worker_loads(problem.owners, left * problem.costs, n_workers) + problem.rest
    balance = start_balance(loads, problem.rest, problem.limits, problem.capacities)
    lists = Lists(*(np.empty(size, np.int64) for size in (left.size, n_workers, n_workers)))
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
    back_items = np.flatnonzero(problem.is_back)
    back_sizes = vectors.sizes[problem.vector[back_items]]
    return Attempt(
        n_back,
        left,
        placed,
        targets,
        int(left[problem.in_table].sum() + away.sum()),
        float((left[back_items] * back_sizes).sum() + vectors.sizes[there][moves].sum()),
        bool(((balance.loads <= problem.limits) & (balance.loads >= problem.floors)).all()),
    )


def new_owners(problem: Problem, plan: Attempt, observed: Observed, beta: float | None) -> Workers:
    """Return where each observed key lives by the plan (F′).

    Where the plan moves some keys of a vector, it means those of the highest priority.
    """
    vectors = problem.vectors
    back_items = np.flatnonzero(problem.is_back)
    vector = np.concatenate(
        (np.repeat(problem.vector[back_items], plan.left[back_items]), problem.vector[plan.placed])
    )
    back_homes = problem.owners[back_items]
    targets = np.concatenate((np.repeat(back_homes, plan.left[back_items]), plan.targets))
    moves = targets != vectors.owners[vector]
    order = np.argsort(vector[moves], kind="stable")
    targets = targets[moves][order]

    n_moving = np.bincount(vector[moves], minlength=vectors.costs.size)
    keys = np.flatnonzero(n_moving[vectors.of_key] > 0)
    priorities = migration_priority(observed.costs[keys], observed.sizes[keys], beta)
    keys = keys[np.lexsort((-priorities, vectors.of_key[keys]))]  # ties: the first key first
    of_key = vectors.of_key[keys]
    begins = np.searchsorted(of_key, of_key)
    chosen = keys[np.arange(keys.size) - begins < n_moving[of_key]]
    owners: Workers = observed.owners.copy()
    owners[chosen] = targets
    return owners
