"""Readj: send keys home, then move or swap heavy keys between two workers, best step first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skewless.arrays import F64, I64, Floats, Ints, Workers
from skewless.parameters import require
from skewless.plumbing.compiling import kernel
from skewless.strategies.mixed.compact_representation import Observed
from skewless.strategies.mixed.controller import TableRouting
from skewless.strategies.mixed.goals import Excess, Goals, donor_limits, excess, worker_loads

_NOTHING = -1
_SMALLEST_GAIN = 1e-9  # of the mean load: below that, a step only moves rounding errors
_LADDER = tuple(2.0**-i for i in range(13))


@kernel
def _list_by_worker(owners: Workers, lists: Ints, starts: Ints) -> None:
    """Fill `lists` with the keys of worker 0, of worker 1, …, each in order of cost."""
    starts[:] = 0
    for key in range(owners.size):
        starts[owners[key] + 1] += 1
    for worker in range(starts.size - 1):
        starts[worker + 1] += starts[worker]
    for key in range(owners.size):
        lists[starts[owners[key]]] = key
        starts[owners[key]] += 1
    for worker in range(starts.size - 1, 0, -1):
        starts[worker] = starts[worker - 1]
    starts[0] = 0


@kernel
def _best_of_pair(
    costs: Floats, giving: Ints, taking: Ints, gap: F64, slope: F64
) -> tuple[F64, I64, I64]:
    """Return the largest gain between two workers, the key to give and the one to take, if any.

    `gap` is how much more the giver has, `slope` by how much the gap shrinks per cost moved. Both
    lists fall, so the best partner of a lighter key is never heavier: one walk over each.
    """
    best, give, take = 0.0, _NOTHING, _NOTHING
    wanted = gap / slope
    place = 0
    for key in giving:
        while place < taking.size and costs[taking[place]] > costs[key] - wanted:
            place += 1
        # Around the wanted difference: the partner just above it, and the one just below, or none.
        for candidate in range(place - 1, place + 1):
            if candidate < 0:
                continue
            partner = taking[candidate] if candidate < taking.size else _NOTHING
            moved = costs[key] - (costs[partner] if partner != _NOTHING else 0.0)
            gain = gap - abs(gap - slope * moved)
            if gain > best:
                best, give, take = gain, key, partner
    return best, give, take


@kernel
def readjust(
    costs: Floats,
    owners: Workers,
    loads: Floats,
    limits: Floats,
    capacities: Floats,
    lists: Ints,
    starts: Ints,
    least_gain: F64,
) -> I64:
    """Move and swap keys until no worker is above its limit or no step helps.

    Every overloaded worker is paired with every other one, every key of the first with none and
    with every key of the second; the step with the largest gain is taken, the first on a tie.
    Keys are given by descending cost. Return the number of these pairs of keys. The walk over
    sorted keys looks at far fewer.
    """
    n_pairs = np.int64(0)
    while True:
        _list_by_worker(owners, lists, starts)
        best, give, take = least_gain, _NOTHING, _NOTHING
        target = _NOTHING
        for giver in range(loads.size):
            if loads[giver] <= limits[giver]:
                continue
            giving = lists[starts[giver] : starts[giver + 1]]
            for taker in range(loads.size):
                if taker != giver:
                    n_pairs += giving.size * (1 + starts[taker + 1] - starts[taker])
                gap = loads[giver] / capacities[giver] - loads[taker] / capacities[taker]
                if gap <= best:  # no step gains more than the gap
                    continue
                taking = lists[starts[taker] : starts[taker + 1]]
                slope = 1.0 / capacities[giver] + 1.0 / capacities[taker]
                gain, key, partner = _best_of_pair(costs, giving, taking, gap, slope)
                if gain > best:
                    best, give, take, target = gain, key, partner, taker
        if give == _NOTHING:
            return n_pairs
        origin = owners[give]
        moved = costs[give]
        owners[give] = target
        if take != _NOTHING:
            moved -= costs[take]
            owners[take] = origin
        loads[origin] -= moved
        loads[target] += moved


@dataclass(frozen=True)
class Readj(TableRouting):
    """Send all keys of the table home, then move or swap heavy keys until loads are even enough.

    Each step looks at every pair of workers and every pair of their heavy keys and takes the one
    that narrows the gap between the two most. Light keys stay with the ring.

    **Guarantee**: only keys with at least `sigma` of the mean load are in the table (and those
    that the report does not name). Balance is not promised: heavy keys may not suffice.

    Parameters
    ----------
    sigma
        A key takes part with at least this share of a worker's mean load. None: 1, 1/2, 1/4 … are
        tried until all workers are within their limits, or else the best of them is taken.
    tolerance, forget_after, pin_giants, two_sided
        As those of `Mixed`; by default giants move like other keys, and only a worker with too much
        load causes a plan, as in the descriptions of this baseline.

    **Deviations from the paper**: this is Readj as the paper of Mixed describes its baseline; it
    reports the best of several σ, hence None. The best partner of a key is found by a walk over
    sorted keys instead of trying all. A worker that is not above its limit gives nothing.

    Examples
    --------
    >>> from skewless.strategy import Report
    >>> strategy = Readj()
    >>> state = strategy.start(2, seed=184)
    >>> keys = np.arange(1, 7, dtype=np.uint64)  # of which the ring gives 3 and 5 to worker 0
    >>> loads = np.array([5.0, 4.0, 3.0, 2.0, 1.0, 1.0])
    >>> sizes = np.array([9.0, 1.0, 3.0, 2.0, 1.0, 1.0])
    >>> state, moves = strategy.rebalance(Report(keys, loads, sizes), state)
    >>> moves.keys.tolist(), int(state.n_entries[0])
    ([2], 1)

    References
    ----------
    Gedik, "Partitioning functions for stateful data parallelism in stream processing", VLDB
    Journal 2014; Mixed (Fang et al.), section V, "Baseline approaches".
    """

    name: ClassVar[str] = "readj"

    pin_giants: bool = False
    two_sided: bool = False
    sigma: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        allowed = self.sigma is None or 0 < self.sigma < float("inf")
        require(self, "sigma", allowed, "a finite number above 0, or None")

    def _plan(self, observed: Observed, aims: Goals, capacities: Floats) -> tuple[Workers, Goals]:
        by_cost = observed.movable_by_cost()
        costs = observed.costs[by_cost]
        mean = (float(costs.sum()) + float(observed.rest.sum())) / capacities.size
        plans: list[tuple[Excess, Workers]] = []
        for sigma in _LADDER if self.sigma is None else (self.sigma,):
            targets: Workers = observed.owners.copy()
            targets[by_cost] = observed.homes[by_cost]
            loads = worker_loads(targets[by_cost], costs, capacities.size) + observed.rest
            limits = donor_limits(loads, aims)
            heavy = by_cost[: int((costs >= sigma * mean).sum())]
            owners = targets[heavy]
            least_gain = _SMALLEST_GAIN * mean
            self._readjust(observed.costs[heavy], owners, loads, limits, capacities, least_gain)
            targets[heavy] = owners
            found = excess(loads, aims)
            plans.append((found, targets))
            if found.total <= 0.0:
                break
        return min(plans, key=lambda plan: plan[0])[1], aims

    def _readjust(
        self,
        costs: Floats,
        owners: Workers,
        loads: Floats,
        limits: Floats,
        capacities: Floats,
        least_gain: float,
    ) -> int:
        """Move and swap keys; return how many pairs of them were compared."""
        lists, starts = np.empty(costs.size, np.int64), np.empty(capacities.size + 1, np.int64)
        return int(readjust(costs, owners, loads, limits, capacities, lists, starts, least_gain))
