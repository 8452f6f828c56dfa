"""Mixed, and the algorithms that its paper compares it with: Algorithms 2 to 5 and III-C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skewless.arrays import Floats, SmallInts, Workers
from skewless.kernels.least_loaded import LoadTree, least, load_tree, update
from skewless.parameters import require
from skewless.plumbing.compiling import kernel
from skewless.strategies.mixed.compact_representation import Observed
from skewless.strategies.mixed.controller import PhasedPlanning, TableRouting
from skewless.strategies.mixed.goals import Goals, relaxed
from skewless.strategies.mixed.phases import Attempt, Problem, new_owners, problem


@dataclass(frozen=True)
class MinTable(PhasedPlanning):
    """Send all exceptions home, then move the heaviest keys of overloaded workers.

    Few heavy keys even out the loads, so few entries are needed. The size of states is ignored: a
    key that goes home and a heavy key that leaves may both have a large state.

    **Guarantee**: that of `Mixed` for balance.

    Parameters
    ----------
    tolerance, forget_after, pin_giants, two_sided, compact, discretisation
        As those of `Mixed`.

    **Deviations from the paper**: those of `Mixed` that concern LLFD.

    Examples
    --------
    >>> import numpy as np
    >>> from skewless.strategy import Report
    >>> strategy = MinTable()
    >>> state = strategy.start(2, seed=184)
    >>> keys = np.arange(1, 7, dtype=np.uint64)  # of which the ring gives 3 and 5 to worker 0
    >>> loads = np.array([5.0, 4.0, 3.0, 2.0, 1.0, 1.0])
    >>> sizes = np.array([9.0, 1.0, 3.0, 2.0, 1.0, 1.0])
    >>> state, moves = strategy.rebalance(Report(keys, loads, sizes), state)
    >>> moves.keys.tolist(), int(state.n_entries[0])
    ([1, 5], 2)

    References
    ----------
    Mixed (Fang et al.), section III-B, Alg. 2.
    """

    name: ClassVar[str] = "min-table"

    def _plan(self, observed: Observed, aims: Goals, capacities: Floats) -> tuple[Workers, Goals]:
        return self._planned(observed, aims, capacities, None, observed.keys.size), aims


@dataclass(frozen=True)
class MinMig(PhasedPlanning):
    """Clean nothing, and give up keys with a high cost^β / state first.

    Little state moves. In return the table grows with every rebalance, up to nearly all keys.

    **Guarantee**: that of `Mixed` for balance; none for the table.

    Parameters
    ----------
    beta
        How much more the load of a key counts than its state when keys to move are chosen.
    tolerance, forget_after, pin_giants, two_sided, compact, discretisation
        As those of `Mixed`.

    **Deviations from the paper**: those of `Mixed` that concern LLFD.

    References
    ----------
    Mixed (Fang et al.), section III-B, Alg. 3.
    """

    name: ClassVar[str] = "min-mig"

    beta: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "beta", 0 <= self.beta <= 10, "between 0 and 10")

    def _plan(self, observed: Observed, aims: Goals, capacities: Floats) -> tuple[Workers, Goals]:
        return self._planned(observed, aims, capacities, self.beta, 0), aims


@dataclass(frozen=True)
class Mixed(MinMig):
    """Move little state, and send keys home only as far as the bound on the table requires.

    A key is on its owner of a ring unless the routing table names another worker. When a worker is
    overloaded, the controller tries a plan with n = 0 keys sent home. While the table is too
    large, it tries again with n larger by the excess. The smallest state goes home first.
    Overloaded workers give up keys with the highest cost^β / state first. LLFD places them.

    **Guarantee**: one worker per key. Nothing moves while all workers are within the tolerance of
    their fair share, and the same report moves nothing twice. After a rebalance (not compact,
    workers equally fast) no worker is above (1 + tolerance) of the mean if no key costs more than
    tolerance · mean. Larger keys may not fit; but whenever some assignment is perfectly even, no
    worker is above the larger of it and 1 + (1 − 1/n)/3, up to a step of 5 % of the excess.

    Parameters
    ----------
    tolerance
        θ_max: how far from its fair share the load of a worker may be, above or below.
    forget_after
        Forget an entry after this many reports in a row without its key; None: never. Until then
        the key may have state. On Spark a report is one micro-batch, and a key that is not in it
        may come back. The key then goes home, and `Moves` names it like any other that moves.
    pin_giants
        A key above the limit of every worker stays where it is, and lighter keys of its worker
        leave. The fair share of the others is computed without both. False: as in the paper.
    two_sided
        A worker with too little load also causes a new plan, which fills it.
    compact
        Plan over vectors of similar keys with discretised costs and sizes, not over single keys.
        Balance is then kept up to what discretisation adds.
    discretisation
        r: with `compact`, large values become multiples of R = 2^r.
    beta
        How much more the load of a key counts than its state when keys to move are chosen.
    max_entries
        A_max: the bound on table entries; without one, this is `MinMig`. Where a plan needs room,
        the entries go whose keys were last reported longest ago, then those of the lightest keys,
        whatever that costs in balance.
    keep_bound
        False: as in the paper, a plan that needs more entries than `max_entries` is carried out.

    **Deviations from the paper**: giants are pinned, workers with too little are filled, a plan
    must be worth its moves, a key that no worker accepts has a place, n grows by the excess, and
    the bound on the table is kept. The complete list, with reasons, is in
    `docs/strategies/mixed.md`.

    Examples
    --------
    >>> import numpy as np
    >>> from skewless.strategy import Report
    >>> strategy = Mixed()
    >>> state = strategy.start(2, seed=184)
    >>> keys = np.arange(1, 7, dtype=np.uint64)  # of which the ring gives 3 and 5 to worker 0
    >>> loads = np.array([5.0, 4.0, 3.0, 2.0, 1.0, 1.0])
    >>> sizes = np.array([9.0, 1.0, 3.0, 2.0, 1.0, 1.0])
    >>> state, moves = strategy.rebalance(Report(keys, loads, sizes), state)
    >>> moves.keys.tolist(), moves.origins.tolist(), moves.targets.tolist()
    ([2], [1], [0])

    References
    ----------
    Fang, Zhang, Fu, Zhang, Zhou, Zhu, "Parallel stream processing against workload skewness and
    variance", HPDC 2017: Alg. 1 (LLFD), Alg. 4 (Mixed), section IV (compact form).
    """

    name: ClassVar[str] = "mixed"

    max_entries: int = 3_000
    keep_bound: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "max_entries", self.max_entries >= 0, "at least 0")

    def _most_entries(self) -> int | None:
        return self.max_entries if self.keep_bound else None

    def _plan(self, observed: Observed, aims: Goals, capacities: Floats) -> tuple[Workers, Goals]:
        """Alg. 4; neighbours of giants take half of the table, and more where others leave room."""
        vectors = self._vectors(observed, capacities.size)
        whole, half = self.max_entries, self.max_entries // 2
        away = observed.owners != observed.homes
        room = whole - (0 if observed.pinned is None else int(away[observed.pinned].sum()))
        # What neighbours of giants may take of the table: in round 1 all of it, in round 2 what
        # the other keys leave (at least half), in round 3 half. Each round must ask for less than
        # the one before, otherwise it would repeat that one. So round 2 may be left out.
        most = whole
        while True:
            feasible = relaxed(aims, observed, most)
            task = problem(vectors, self.beta, capacities, observed.rest, feasible)
            plan = self._search(task, room)
            if plan.n_entries <= room:
                return new_owners(task, plan, observed, self.beta), feasible
            if most == half or not aims.closed.any():
                break
            owners = new_owners(task, plan, observed, self.beta)
            neighbours = (owners != observed.homes) & aims.closed[observed.homes]
            left_by_others = room - (plan.n_entries - int(neighbours.sum()))
            if left_by_others < 0:  # the neighbours are not what is too many
                break
            is_round_2_next = most == whole and left_by_others < whole
            most = max(left_by_others, half) if is_round_2_next else half
        feasible = relaxed(aims, observed, half)
        # As MinTable does.
        task = problem(vectors, None, capacities, observed.rest, feasible)
        plan = self._attempt(task, observed.keys.size)
        owners = new_owners(task, plan, observed, None)
        if self.keep_bound:  # only the heaviest of those that are not at home
            away = np.flatnonzero(owners != observed.homes)
            lightest = away[np.argsort(-observed.costs[away], kind="stable")[whole:]]
            owners[lightest] = observed.homes[lightest]
        return owners, feasible

    def _search(self, task: Problem, room: float) -> Attempt:
        """Alg. 4: return the first plan whose table has `room`, or the one of an empty table."""
        in_table = n_in_table(task)
        n_back = 0
        while True:
            plan = self._attempt(task, n_back)
            if plan.n_entries <= room or n_back == in_table:
                return plan
            n_back = min(in_table, n_back + plan.n_entries - int(max(room, 0)))


def n_in_table(task: Problem) -> int:
    """Count the observed keys in the table (N_A)."""
    return int(task.vectors.counts[task.vector[task.in_table]].sum())


@dataclass(frozen=True)
class MixedBruteForce(Mixed):
    """Try every number of keys to send home, and take the plan that moves the least state.

    It shows how much Mixed loses by its few attempts. Each attempt costs as much as one of Mixed
    and there are as many as the table has entries.

    **Guarantee**: that of `Mixed`. Of all plans that Mixed could try with this report, no plan
    within the bounds moves less state (in the compact form: by its discretised sizes).

    Parameters
    ----------
    tolerance, forget_after, pin_giants, two_sided, compact, discretisation, beta, max_entries,
    keep_bound
        As those of `Mixed`.

    **Deviations from the paper**: those of `Mixed`. Plans are ranked by whether the table fits,
    whether all workers are within their limits, and the state that moves.

    Examples
    --------
    >>> MixedBruteForce(max_entries=100).name
    'mixed-bf'

    References
    ----------
    Mixed (Fang et al.), section III-C.
    """

    name: ClassVar[str] = "mixed-bf"

    def _search(self, task: Problem, room: float) -> Attempt:
        plans = (self._attempt(task, n_back) for n_back in range(n_in_table(task) + 1))
        return min(plans, key=lambda p: (p.n_entries > room, not p.is_balanced, p.state_moved))


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
    tolerance, forget_after, pin_giants, two_sided
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
