"""What loads should be, and when a plan is worth its moves, with dicts and lists."""

from __future__ import annotations

import math
from typing import NamedTuple

ROUNDING = 1e-9


class Aims(NamedTuple):
    fair: list[float]
    limits: list[float]
    alarms: list[float]
    floors: list[float]
    closed: list[bool]
    giants: dict[int, int]  # key -> worker


def loads_of(costs, owners, rest) -> list[float]:
    loads = list(rest)
    for key, owner in owners.items():
        loads[owner] += costs[key]
    return loads


def aims_of(costs, owners, tolerance, speeds, rest, *, pin_giants, two_sided) -> Aims:
    """Close the workers of giants and of rests above the limit, one at a time."""
    workers = range(len(speeds))
    loads = loads_of(costs, owners, rest)
    load, speed = float(sum(loads)), float(sum(speeds))
    fixed = [float(amount) for amount in rest]
    closed = [False] * len(speeds)
    giants: dict[int, int] = {}
    upcoming = sorted(costs, key=lambda k: (-costs[k], k))
    while pin_giants and closed.count(False) > 1:
        limits = [(1.0 + tolerance) * (load / speed) * s * (1.0 + ROUNDING) for s in speeds]
        still_open = [d for d in workers if not closed[d]]
        too_much = [d for d in still_open if rest[d] > limits[d]]
        if too_much:
            worker = max(too_much, key=lambda d: (rest[d] / speeds[d], -d))
        else:
            if len(giants) == len(upcoming):
                break
            key = upcoming[len(giants)]
            cost = costs[key]
            if any(rest[d] + cost <= limits[d] for d in still_open):
                break
            worker = owners[key]
            if closed[worker]:

                def rank(d, cost=cost):
                    return (rest[d] + cost) / speeds[d], loads[d] / speeds[d], d

                worker = min(still_open, key=rank)
            giants[key] = worker
            fixed[worker] += cost
            load -= cost
        load = max(load - rest[worker], 0.0)
        speed -= speeds[worker]
        closed[worker] = True
    fair = [load / speed * s for s in speeds]
    alarms = [(1.0 + tolerance) * f for f in fair]
    limits = list(alarms)
    floors = [max(1.0 - tolerance, 0.0) * f if two_sided else 0.0 for f in fair]
    for d in workers:
        if closed[d]:
            limits[d] = fixed[d] + 1 / 8 * tolerance * fair[d]
            alarms[d] = fixed[d] + tolerance * fair[d]
            floors[d] = 0.0
    return Aims(fair, limits, alarms, floors, closed, giants)


def donor_limits(loads, aims: Aims) -> list[float]:
    """The loads down to which workers give, so that what is missing below the floors is there."""

    def level(d, part):
        if aims.floors[d] <= 0.0:
            return aims.limits[d]
        return aims.fair[d] + part * (aims.limits[d] - aims.fair[d])

    def given(part):
        return sum(max(load - level(d, part), 0.0) for d, load in enumerate(loads))

    missing = sum(max(floor - load, 0.0) for floor, load in zip(aims.floors, loads, strict=True))
    low, high = 0.0, 1.0
    if given(high) >= missing:
        low = high
    while high - low > 1e-6:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if given(middle) >= missing else (low, middle)
    return [level(d, low) for d in range(len(loads))]


def excess(loads, aims: Aims) -> tuple[int, float]:
    mean = sum(aims.fair) / len(aims.fair)
    if mean <= 0:
        return 0, 0.0
    above = [max(load - alarm, 0.0) / mean for load, alarm in zip(loads, aims.alarms, strict=True)]
    below = [max(floor - load, 0.0) / mean for load, floor in zip(loads, aims.floors, strict=True)]
    above = [a if a > ROUNDING else 0.0 for a in above]
    below = [b if b > ROUNDING else 0.0 for b in below]
    steps = math.ceil(math.log(max(above) / ROUNDING) / math.log(1.05)) if max(above) > 0 else 0
    return steps, sum(above) + sum(below)


def relaxed(aims: Aims, costs, owners, homes, rest, most: int) -> Aims:
    """At most so many keys leave closed workers; `costs` are of keys that are not pinned."""
    most -= sum(aims.closed[homes[k]] for k in homes if owners[k] != homes[k])
    beside = sorted((k for k in costs if aims.closed[owners[k]]), key=lambda k: -costs[k])
    most = max(most, 0)
    if len(beside) <= most:
        return aims
    stays = {k: owners[k] for k in beside if costs[k] <= costs[beside[most]]}
    left = loads_of(costs, stays, rest)
    least = [amount if closed else 0.0 for amount, closed in zip(left, aims.closed, strict=True)]
    return aims._replace(
        limits=[max(pair) for pair in zip(aims.limits, least, strict=True)],
        alarms=[max(pair) for pair in zip(aims.alarms, least, strict=True)],
    )
