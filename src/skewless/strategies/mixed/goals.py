"""What the load of each worker should be: fair shares, limits, and keys too large for any worker.

A key is a giant when no worker can hold it within its limit. No plan makes the worker of a giant
lighter than the giant. So a giant stays where it is, its worker is closed to others, and the fair
share is computed from the remaining load and the remaining workers. That lowers the limit, so more
keys may be giants then. A rest above the limit closes its worker in the same way.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from skewless.arrays import Floats, Ints, Workers
from skewless.strategies.mixed.compact_representation import Flags, Observed

#: What a plan leaves on the worker of a giant beside it, in parts of the tolerance. Not nothing:
#: the lightest neighbours are many, have next to no load, and would need an entry each.
_BESIDE_A_GIANT = 1 / 8
_ROUNDING = 1e-9  # of a fair share: what sums of the same numbers in another order may differ by
_STEP = 1.05  # the largest excess is compared in steps of this factor
_WORTH = 0.02  # a plan must lower the excess by this part of it, or of a fair share if that is less


class Goals(NamedTuple):
    """The loads that a plan aims at, by worker, and the giants, by key."""

    fair: Floats  # share of the load that is not pinned
    limits: Floats  # L_max: the most that a plan leaves
    alarms: Floats  # above this there is a new plan; at least the limit
    floors: Floats  # below this there is a new plan
    closed: Flags  # the worker of a giant, or of a rest above the limit
    giants: Ints  # places of the pinned keys among the observed ones
    giants_at: Workers  # where each of them is to be


def worker_loads(owners: Workers, costs: Floats, n_workers: int) -> Floats:
    """Return the load of each worker when keys of these costs are at `owners`."""
    return np.bincount(owners, costs, n_workers).astype(np.float64)


def _pins(
    observed: Observed, tolerance: float, capacities: Floats, loads: Floats
) -> tuple[Flags, float, list[int], list[int]]:
    """Return the giants, heaviest first, each with a worker of its own.

    Before them: which workers are closed, and the fair share of a worker of speed 1 that is not.
    """
    closed = np.zeros(capacities.size, np.bool_)
    load, speed = float(loads.sum()), float(capacities.sum())
    giants: list[int] = []
    giants_at: list[int] = []
    upcoming: list[int] = observed.orders.by_cost[: capacities.size].tolist()
    while (~closed).sum() > 1:
        limits = (1.0 + tolerance) * (load / speed) * capacities * (1.0 + _ROUNDING)
        too_much = ~closed & (observed.rest > limits)
        if too_much.any():
            worker = int(np.argmax(np.where(too_much, observed.rest / capacities, -1.0)))
        else:
            if len(giants) == len(upcoming):
                break
            key = upcoming[len(giants)]
            filled = observed.rest + observed.costs[key]
            if (~closed & (filled <= limits)).any():
                break
            worker = int(observed.owners[key])
            if closed[worker]:  # two giants in one place: the lighter one moves
                best = np.lexsort((loads / capacities, filled / capacities, closed))
                worker = int(best[0])
            giants.append(key)
            giants_at.append(worker)
            load -= float(observed.costs[key])
        load = max(load - float(observed.rest[worker]), 0.0)
        speed -= float(capacities[worker])
        closed[worker] = True
    return closed, load / speed, giants, giants_at


def goals(
    observed: Observed,
    tolerance: float,
    capacities: Floats,
    *,
    pin_giants: bool = True,
    two_sided: bool = True,
    slack: float = 0.0,
) -> Goals:
    """Compute each worker's fair share and limits, and the keys that are pinned as giants.

    Parameters
    ----------
    pin_giants
        False: the mean over all workers is the fair share of each, whatever the keys.
    two_sided
        False: no worker has too little.
    slack
        How much further from its fair share a load may be than a plan aims at, in fair shares.
    """
    n_workers = capacities.size
    loads = worker_loads(observed.owners, observed.costs, n_workers) + observed.rest
    closed, level = np.zeros(n_workers, np.bool_), float(loads.sum()) / float(capacities.sum())
    found: list[int] = []
    found_at: list[int] = []
    if pin_giants:
        closed, level, found, found_at = _pins(observed, tolerance, capacities, loads)
    fair = level * capacities
    giants, giants_at = np.array(found, np.int64), np.array(found_at, np.int32)
    alarms = (1.0 + tolerance) * fair
    limits = alarms.copy()
    if closed.any():
        fixed = observed.rest + worker_loads(giants_at, observed.costs[giants], n_workers)
        limits[closed] = (fixed + _BESIDE_A_GIANT * tolerance * fair)[closed]
        alarms[closed] = (fixed + tolerance * fair)[closed]
    alarms += slack * fair
    least = max(1.0 - tolerance - slack, 0.0) if two_sided else 0.0
    floors = np.where(closed, 0.0, least * fair)
    return Goals(fair, limits, alarms, floors, closed, giants, giants_at)


def relaxed(goals: Goals, observed: Observed, most: int) -> Goals:
    """Return goals by which at most this many keys leave the workers of giants, the heaviest first.

    `observed` has the giants pinned, and their cost in the rest. Keys that left before count,
    because they still need their entries.
    """
    if not goals.closed.any():
        return goals
    away = observed.owners != observed.homes
    most = max(most - int(np.count_nonzero(goals.closed[observed.homes[away]])), 0)
    beside = goals.closed[observed.owners]
    if observed.pinned is not None:
        beside &= ~observed.pinned
    places = np.flatnonzero(beside)
    if places.size <= most:
        return goals
    costs = observed.costs[places]
    cut = np.partition(costs, costs.size - most - 1)[costs.size - most - 1]
    stays = places[costs <= cut]
    left = worker_loads(observed.owners[stays], observed.costs[stays], goals.fair.size)
    least = np.where(goals.closed, observed.rest + left, 0.0)
    return goals._replace(
        limits=np.maximum(goals.limits, least), alarms=np.maximum(goals.alarms, least)
    )


def with_giants_pinned(observed: Observed, goals: Goals) -> Observed:
    """Return `observed` with the giants pinned to their workers and their cost in the rest."""
    if goals.giants.size == 0:
        return observed
    costs = worker_loads(goals.giants_at, observed.costs[goals.giants], goals.fair.size)
    owners = observed.owners.copy()
    owners[goals.giants] = goals.giants_at
    pinned = np.zeros(owners.size, np.bool_)
    pinned[goals.giants] = True
    return observed._replace(owners=owners, rest=observed.rest + costs, pinned=pinned)


class Excess(NamedTuple):
    """How far loads are from what they should be, in fair shares of a mean worker."""

    steps: int  # the largest excess above an alarm, in steps
    total: float  # all excesses, and all that is missing below the floors

    def is_better(self, other: Excess) -> bool:
        """Return whether a plan with this excess is worth its moves if the excess is `other` now.

        No endless sequence of plans is better each time, so a loop over plans ends.
        """
        gain = _WORTH * min(other.total, 1.0)
        return (self.steps, self.total) < (other.steps, other.total - gain)


def excess(loads: Floats, goals: Goals) -> Excess:
    """Measure the distance of `loads` from the goals; all zeros: there is no need for a plan."""
    mean = float(goals.fair.mean())
    if mean <= 0.0:
        return Excess(0, 0.0)
    above = np.maximum(loads - goals.alarms, 0.0) / mean
    below = np.maximum(goals.floors - loads, 0.0) / mean
    above[above <= _ROUNDING] = 0.0
    below[below <= _ROUNDING] = 0.0
    largest = float(above.max())
    steps = math.ceil(math.log(largest / _ROUNDING) / math.log(_STEP)) if largest > 0.0 else 0
    return Excess(steps, float(above.sum() + below.sum()))


def donor_limits(loads: Floats, goals: Goals) -> Floats:
    """Return the loads down to which workers give, so that others reach their floors.

    What is above the limits may be enough. If not, workers give that are between their fair share
    and their limit, all of them down to the same part of that distance.
    """
    limits, floors, fair = goals.limits, goals.floors, goals.fair

    def levels(part: float) -> Floats:
        # The worker of a giant has no floor; or no worker has one.
        return np.where(floors <= 0.0, limits, fair + part * (limits - fair))

    def is_enough(part: float) -> bool:
        given, missing = np.maximum((loads - levels(part), floors - loads), 0.0)
        # Added one after the other: `sum` adds in another order, and plans are equal to the bit.
        return bool(np.cumsum(given)[-1] >= np.cumsum(missing)[-1])

    low, high = 0.0, 1.0
    if is_enough(high):
        low = high
    while high - low > 1e-6:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_enough(middle) else (low, middle)
    return levels(low)
