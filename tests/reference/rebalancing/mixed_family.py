"""The strategies of the family as whole controllers, with dicts and lists."""

from __future__ import annotations

from typing import NamedTuple

from reference.rebalancing.mixed import attempt, n_entries, state_moved
from reference.rebalancing.mixed_goals import Aims, aims_of, excess, loads_of, relaxed


class Task(NamedTuple):
    """What a plan is made from; giants are in `owners` and `homes`, and their cost in `rest`."""

    costs: dict[int, float]
    sizes: dict[int, float]
    homes: dict[int, int]
    owners: dict[int, int]
    speeds: list[float]
    rest: list[float]
    tolerance: float
    all_costs: dict[int, float]  # with those of giants

    def plan(self, aims: Aims, n_back: int, beta: float | None) -> dict[int, int]:
        movable = {key: self.owners[key] for key in self.costs}
        new = attempt(
            self.costs,
            self.sizes,
            self.homes,
            movable,
            n_back,
            beta,
            self.tolerance,
            self.speeds,
            self.rest,
            aims,
        )
        return {**self.owners, **new}


def min_table(task: Task, aims: Aims):
    return task.plan(aims, len(task.costs), None), aims


def min_mig(task: Task, aims: Aims, beta=1.5):
    return task.plan(aims, 0, beta), aims


def _n_in_table(task: Task) -> int:
    return sum(task.owners[key] != task.homes[key] for key in task.costs)


def _few_attempts(task: Task, aims: Aims, max_entries: int):
    n_back, in_table = 0, _n_in_table(task)
    while True:
        new = task.plan(aims, n_back, 1.5)
        surplus = n_entries(new, task.homes) - max_entries
        if surplus <= 0 or n_back == in_table:
            return new
        pinned = sum(task.owners[k] != task.homes[k] for k in task.owners if k not in task.costs)
        room = max_entries - pinned
        n_movable = n_entries(new, task.homes) - pinned
        n_back = min(in_table, n_back + n_movable - max(room, 0))


def _all_attempts(task: Task, aims: Aims, max_entries: int):
    def rank(new):
        loads = loads_of(task.costs, {k: new[k] for k in task.costs}, task.rest)
        bounds = zip(loads, aims.limits, aims.floors, strict=True)
        balanced = all(floor <= load <= limit for load, limit, floor in bounds)
        fits = n_entries(new, task.homes) <= max_entries
        return not fits, not balanced, state_moved(task.owners, new, task.sizes)

    return min((task.plan(aims, n, 1.5) for n in range(_n_in_table(task) + 1)), key=rank)


def mixed(task: Task, aims: Aims, max_entries=3_000, search=_few_attempts):
    most, least = max_entries, max_entries // 2
    while True:
        feasible = relaxed(aims, task.costs, task.owners, task.homes, task.rest, most)
        new = search(task, feasible, max_entries)
        n_new = n_entries(new, task.homes)
        if n_new <= max_entries:
            return new, feasible
        if most == least or not any(aims.closed):
            break
        away = [key for key in new if new[key] != task.homes[key]]
        pinned = sum(key not in task.costs for key in away)
        neighbours = sum(aims.closed[task.homes[key]] for key in away)
        others = n_new - pinned - neighbours
        if others > max_entries - pinned:
            feasible = relaxed(aims, task.costs, task.owners, task.homes, task.rest, least)
            break
        fits = most == max_entries and max_entries - pinned - others < most
        most = max(max_entries - pinned - others, least) if fits else least
    new, feasible = min_table(task, feasible)
    away = [key for key in sorted(new) if new[key] != task.homes[key]]
    for key in sorted(away, key=lambda key: -task.all_costs[key])[max_entries:]:
        new[key] = task.homes[key]
    return new, feasible


def mixed_brute_force(task: Task, aims: Aims, max_entries=3_000):
    return mixed(task, aims, max_entries, _all_attempts)


def simple(task: Task, aims: Aims):
    new = dict(task.owners)
    loads = list(task.rest)
    for key in sorted(task.costs, key=lambda k: (-task.costs[k], k)):
        if task.costs[key] > 0:
            worker = min(range(len(loads)), key=lambda d: (loads[d] / task.speeds[d], d))
            loads[worker] += task.costs[key]
            new[key] = worker
    return new, aims


def rebalanced(
    planner, costs, sizes, homes, owners, tolerance, speeds, rest=None, *, pin_giants, two_sided
):
    """Plan until loads are as they should be, or a plan is not worth its moves."""
    rest = [0.0] * len(speeds) if rest is None else rest
    while True:
        sides = {"pin_giants": pin_giants, "two_sided": two_sided}
        aims = aims_of(costs, owners, tolerance, speeds, rest, **sides)
        if excess(loads_of(costs, owners, rest), aims)[1] <= 0:
            return owners
        pinned = {key: costs[key] for key in aims.giants}
        task = Task(
            {key: cost for key, cost in costs.items() if key not in pinned},
            sizes,
            homes,
            {**owners, **aims.giants},
            speeds,
            loads_of(pinned, aims.giants, rest),
            tolerance,
            costs,
        )
        new, aims = planner(task, aims)
        before = excess(loads_of(costs, owners, rest), aims)
        after = excess(loads_of(costs, new, rest), aims)
        if not after < (before[0], before[1] - 0.02 * min(before[1], 1.0)):
            return owners
        owners = new
