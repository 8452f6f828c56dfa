"""LLFD and the algorithms around it with dicts and lists, line by line.

A key is any name that sorts; `costs`, `sizes`, `homes` (h) and `owners` (F) are dicts by key.
`rest` is a list by worker: the load of keys that nobody names, which no plan can move.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

from reference.rebalancing.mixed_goals import donor_limits

Key = Any


def limits_of(total: float, tolerance: float, capacities: list[float]) -> list[float]:
    return [(1.0 + tolerance) * (total * c / sum(capacities)) for c in capacities]


def priority(cost: float, size: float, beta: float | None) -> float:
    if beta is None:
        return cost
    if cost == 0:
        return 0.0
    if size == 0:
        return math.inf
    return (cost * math.sqrt(cost) if beta == 1.5 else cost**beta) / size


class Plan:
    """The assignment while it changes: `where[key]` is None for candidates."""

    def __init__(self, costs, sizes, owners, beta, limits, capacities, rest=None, aims=None):
        self.costs = costs
        self.rest = rest or [0.0] * len(limits)
        self.owners = dict(owners)
        self.where = dict(owners)
        self.limits = limits if aims is None else aims.limits
        self.aims = aims
        self.capacities = capacities
        self.by_priority = sorted(costs, key=lambda k: (-priority(costs[k], sizes[k], beta), k))

    def load(self, worker: int) -> float:
        own = sum(self.costs[key] for key, where in self.where.items() if where == worker)
        return own + self.rest[worker]

    def relative(self, worker: int) -> float:
        return self.load(worker) / self.capacities[worker]

    def workers(self) -> list[int]:
        return sorted(range(len(self.limits)), key=lambda d: (self.relative(d), d))

    def prepare(self) -> None:
        loads = [self.load(worker) for worker in range(len(self.limits))]
        down_to = self.limits if self.aims is None else donor_limits(loads, self.aims)
        floors = [0.0] * len(loads) if self.aims is None else self.aims.floors
        for worker in range(len(self.limits)):
            for key in self.by_priority:
                if self.load(worker) <= self.limits[worker]:
                    break
                if self.where[key] == worker:
                    self.where[key] = None
            for key in self.by_priority:
                spare = self.load(worker) - floors[worker]
                if self.load(worker) <= down_to[worker]:
                    break
                if self.where[key] == worker and 0 < self.costs[key] <= spare:
                    self.where[key] = None

    def llfd(self) -> None:
        while candidates := [key for key, where in self.where.items() if where is None]:
            key = min(candidates, key=lambda k: (-self.costs[k], k))
            for worker in self.workers():
                if self.adjust(key, worker):
                    break
            else:
                worker = self.owners[key]
                everything = sum(self.load(d) for d in range(len(self.limits)))
                if self.relative(worker) * sum(self.capacities) > everything:
                    worker = self.workers()[0]
            self.where[key] = worker

    def adjust(self, key: Key, worker: int) -> bool:
        load = self.load(worker) + self.costs[key]
        exchangeable = []
        for other in self.by_priority:
            if load <= self.limits[worker]:
                break
            if self.where[other] == worker and self.costs[other] < self.costs[key]:
                exchangeable.append(other)
                load -= self.costs[other]
        if load > self.limits[worker]:
            return False
        for other in exchangeable:
            self.where[other] = None
        return True


def total_of(costs, rest) -> float:
    return float(sum(costs.values()) + sum(rest or []))


def attempt(costs, sizes, homes, owners, n_back, beta, tolerance, capacities, rest=None, aims=None):
    """Phases I to III; `owners` and the result are dicts by key."""
    in_table = sorted((k for k in costs if owners[k] != homes[k]), key=lambda k: (sizes[k], k))
    cleaned = dict(owners)
    for key in in_table[:n_back]:
        cleaned[key] = homes[key]
    limits = limits_of(total_of(costs, rest), tolerance, capacities)
    plan = Plan(costs, sizes, cleaned, beta, limits, capacities, rest, aims)
    plan.prepare()
    plan.llfd()
    return plan.where


def n_entries(owners, homes) -> int:
    return sum(owners[key] != homes[key] for key in owners)


def state_moved(old, new, sizes) -> float:
    return sum(sizes[key] for key in old if old[key] != new[key])


def is_overloaded(costs, owners, tolerance, capacities, rest=None) -> bool:
    loads = list(rest or [0.0] * len(capacities))
    for key, owner in owners.items():
        loads[owner] += costs[key]
    limits = limits_of(total_of(costs, rest), tolerance, capacities)
    return any(load > limit for load, limit in zip(loads, limits, strict=True))


def discretise(values: list[float], degree: int) -> list[float]:
    """HLHE with the representatives written out; values are at least 1, or 0."""
    if not any(values):
        return list(values)
    s, r = int(max(values) // degree), degree.bit_length() - 1
    representatives = [j * degree for j in range(s, 0, -1)] + [2**j for j in range(r - 1, -1, -1)]
    out: list[float] = [0.0] * len(values)
    error = 0.0
    for i in sorted(range(len(values)), key=lambda i: -values[i]):
        x = values[i]
        if x == 0:
            continue
        if x >= representatives[0]:
            choice = representatives[0]
        else:
            above = min(y for y in representatives if y > x)
            below = max(y for y in representatives if y <= x)
            choice = above if abs(error + x - above) < abs(error + x - below) else below
        error += x - choice
        out[i] = float(choice)
    return out


def compact_attempt(
    costs, sizes, homes, owners, n_back, beta, tolerance, capacities, degree, rest=None
):
    """Deal the keys of each vector (d, d^h, v_c, v_S) out to workers."""
    keys = sorted(costs)
    value: dict[Key, list[float]] = {key: [] for key in keys}
    for of in (costs, sizes):
        unit = min((of[k] for k in keys if of[k] > 0), default=1.0)
        for worker in range(len(capacities)):
            own = [key for key in keys if owners[key] == worker]
            for key, v in zip(own, discretise([of[k] / unit for k in own], degree), strict=True):
                value[key].append(v * unit)
    vectors: dict[tuple[float, ...], int] = defaultdict(int)
    for key in keys:
        vectors[(owners[key], homes[key], *value[key])] += 1
    # Every key of a vector is a unit; those moved back come after those that are where they were.
    numbered = {vector: number for number, vector in enumerate(vectors)}
    in_table = sorted((v for v in vectors if v[0] != v[1]), key=lambda v: (v[3], numbered[v]))
    back = dict.fromkeys(vectors, 0)
    for vector in in_table:
        back[vector] = min(vectors[vector], n_back - sum(back.values()))
    units = {}
    for vector, count in vectors.items():
        for i in range(count):
            units[numbered[vector], int(i < back[vector]), i] = vector
    unit_owners = {u: vector[1] if u[1] else vector[0] for u, vector in units.items()}
    unit_costs = {unit: vector[2] for unit, vector in units.items()}
    unit_sizes = {unit: vector[3] for unit, vector in units.items()}
    limits = limits_of(total_of(unit_costs, rest), tolerance, capacities)
    plan = Plan(unit_costs, unit_sizes, unit_owners, beta, limits, capacities, rest)
    plan.prepare()
    plan.llfd()
    going: dict[tuple[Any, ...], int] = defaultdict(int)
    for unit, target in plan.where.items():
        going[(*units[unit], target)] += 1
    return dict(going)
