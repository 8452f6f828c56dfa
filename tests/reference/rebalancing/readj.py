"""Readj: every pair of workers, every pair of their heavy keys."""

from __future__ import annotations

from reference.rebalancing.mixed import limits_of, total_of


def readjust(costs, homes, sigma, tolerance, capacities, rest):
    """Return where keys live after moving and swapping those with at least `sigma` of the mean."""
    n = len(capacities)
    total = total_of(costs, rest)
    limits = limits_of(total, tolerance, capacities)
    where = dict(homes)
    heavy = sorted((k for k in costs if costs[k] >= sigma * total / n), key=lambda k: -costs[k])
    while True:
        loads = loads_of(costs, where, rest)
        best = None
        for giver in range(n):
            for taker in range(n):
                gap = loads[giver] - loads[taker]
                if loads[giver] <= limits[giver] or gap <= 0:
                    continue
                for key in (k for k in heavy if where[k] == giver):
                    taking = [k for k in heavy if where[k] == taker]
                    # Of equally good partners: the heavier; of equally heavy ones, the one next
                    # to the cost that would even out the two workers.
                    above = [k for k in taking if costs[k] > costs[key] - gap / 2]
                    below = taking[len(above) :]
                    for partner in [*reversed(above), *below, None]:
                        moved = costs[key] - (0 if partner is None else costs[partner])
                        gain = gap - abs(gap - 2 * moved)
                        if gain > 1e-9 * total / n and (best is None or gain > best[0]):
                            best = (gain, key, partner, giver, taker)
        if best is None:
            return where
        _, key, partner, giver, taker = best
        where[key] = taker
        if partner is not None:
            where[partner] = giver


def loads_of(costs, where, rest):
    return [
        left + sum(costs[k] for k in costs if where[k] == worker)
        for worker, left in enumerate(rest)
    ]


def readj(costs, homes, tolerance, capacities, sigma=None, rest=None):
    rest = rest or [0] * len(capacities)
    limits = limits_of(total_of(costs, rest), tolerance, capacities)
    plans = []
    for step in [2.0**-i for i in range(13)] if sigma is None else [sigma]:
        where = readjust(costs, homes, step, tolerance, capacities, rest)
        highest = max(loads_of(costs, where, rest))
        if highest <= limits[0]:
            return where
        plans.append((highest, where))
    return min(plans, key=lambda plan: plan[0])[1]
