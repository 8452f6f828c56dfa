"""Simple: assign all keys anew, heaviest first, each to the least loaded worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from skewless.arrays import Floats, SmallInts, Workers
from skewless.kernels.least_loaded import LoadTree, least, load_tree, update
from skewless.plumbing.compiling import kernel
from skewless.strategies.mixed.compact_representation import Observed
from skewless.strategies.mixed.controller import TableRouting
from skewless.strategies.mixed.goals import Goals


@kernel
def _assign_all(
    costs: Floats,
    by_cost: SmallInts,
    capacities: Floats,
    loads: Floats,
    tree: LoadTree,
    out: Workers,
) -> None:
    for key in by_cost:  # Alg. 5, l. 5
        if costs[key] <= 0.0:
            return
        worker = least(tree)
        loads[worker] += costs[key]
        update(tree, worker, loads[worker] / capacities[worker])
        out[key] = worker


@dataclass(frozen=True)
class Simple(TableRouting):
    """When a worker has too much load, ignore where keys are and pack them anew, largest first.

    This is the classic rule for packing jobs on machines. Mixed's paper proves its bound with it;
    it is of no practical use, as nearly all state moves and nearly all keys are in the table.

    **Guarantee**: after a rebalance no worker is above 1 + (1 − 1/n)/3 of the mean whenever any
    assignment is perfectly even (all workers equally fast).

    Parameters
    ----------
    tolerance, keep_unreported, forget_after, pin_giants, two_sided
        As those of `Mixed`; by default giants are packed like other keys, and only a worker with
        too much load causes a plan.

    **Deviations from the paper**: keys without load in the window stay where they are; packed
    like the others, they would all go to one worker.

    Examples
    --------
    >>> import numpy as np
    >>> from skewless.strategy import Report
    >>> strategy = Simple()
    >>> state = strategy.start(2, seed=0)
    >>> keys = np.arange(1, 5, dtype=np.uint64)
    >>> loads = np.array([8.0, 4.0, 2.0, 2.0])
    >>> state, moves = strategy.rebalance(Report(keys, loads, loads), state)
    >>> out = np.empty(4, np.int32)
    >>> strategy.route(keys, state, out)
    >>> out.tolist()
    [0, 1, 1, 1]

    References
    ----------
    Mixed (Fang et al.), appendix, Alg. 5. Graham, "Bounds on multiprocessing timing anomalies",
    SIAM J. Appl. Math. 1969 (the rule and its bound).
    """

    name: ClassVar[str] = "simple"

    pin_giants: bool = False
    two_sided: bool = False

    def _plan(self, observed: Observed, aims: Goals, capacities: Floats) -> tuple[Workers, Goals]:
        targets: Workers = observed.owners.copy()
        loads = observed.rest.copy()
        tree = load_tree(loads / capacities)
        by_cost = observed.movable_by_cost()
        _assign_all(observed.costs, by_cost, capacities, loads, tree, targets)
        return targets, aims
