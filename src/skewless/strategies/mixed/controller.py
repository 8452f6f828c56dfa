"""What the strategies with a routing table share: routing, rescaling, and when to make a plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skewless.arrays import Floats, Keys, Workers, read_only
from skewless.moves import moves_between, rest_by_worker
from skewless.parameters import check_types, require, require_all_stay
from skewless.strategies.mixed import routing_table
from skewless.strategies.mixed.compact_representation import (
    Observed,
    Orders,
    Vectors,
    compact,
    full,
)
from skewless.strategies.mixed.goals import (
    Excess,
    Goals,
    excess,
    goals,
    with_giants_pinned,
    worker_loads,
)
from skewless.strategies.mixed.phases import Attempt, Problem, attempt, new_owners, problem
from skewless.strategies.mixed.routing_table import Entries, TableState
from skewless.strategies.rescaling import NamesItsMoves
from skewless.strategy import Moves, Report, Traits

#: Plans for one report. Goals depend on where keys are, so each could seem better than the last.
_MOST_PLANS = 100
#: A load this many standard deviations from its mean is not due to chance.
_CHANCE = 3.0
#: What discretised costs may add to the load of a worker, in fair shares. Without it, plans would
#: be made again and again for errors that the next plan has too.
_COMPACT_ERROR = 0.02


@dataclass(frozen=True)
class TableRouting(NamesItsMoves, ABC):
    """A routing table over a ring, and a controller that makes a plan when loads are uneven.

    The parameters are those of `Mixed`.
    """

    state_version: ClassVar[int] = 2  # in version 1 the ring had random points
    traits: ClassVar[Traits] = Traits(family="moving", fan_out=1, minimal_rescale=True)

    tolerance: float = 0.08
    forget_after: int | None = 1_000
    pin_giants: bool = True
    two_sided: bool = True

    def __post_init__(self) -> None:
        check_types(self)
        allowed = 0 <= self.tolerance < float("inf")
        require(self, "tolerance", allowed, "a finite number of at least 0")
        lasts = self.forget_after is None or self.forget_after >= 1
        require(self, "forget_after", lasts, "at least 1, or None")

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> TableState:
        """Return the ring with an empty table."""
        return routing_table.start_table(n_workers, seed)

    def route(self, keys: Keys, state: TableState, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        routing_table.route_by_table(read_only(keys), state, out)

    def route_weighted(self, keys: Keys, weights: Floats, state: TableState, out: Workers) -> None:
        """Fill `out` as `route` does: the cost of records counts in reports, not in routing."""
        routing_table.route_by_table(read_only(keys), state, out)

    def rescale(
        self, state: TableState, n_workers: int, capacities: Floats | None = None
    ) -> TableState:
        """Return the state for other workers; the next rebalance evens out their loads."""
        require_all_stay(type(self).__name__, capacities)
        return routing_table.rescaled(state, n_workers, capacities)

    def rebalance(self, report: Report, state: TableState) -> tuple[TableState, Moves]:
        """Return the plan for the next window; while loads are within bounds, the same as before.

        A plan is made from the plan that it replaces, so a second one might improve on the first.
        Plans are made until one is not worth its moves. So the same report, given again, moves
        nothing. If the report has a `noise`, a load within three such standard deviations is
        within bounds, whatever the tolerance.
        """
        observed = self._observed(report, state)
        if report.keys.size == 0:
            return state, moves_between(report.keys, observed.owners, observed.owners)
        state = state._replace(n_reports=state.n_reports + 1)
        entries = routing_table.all_entries(state)
        named = routing_table.is_among(entries.keys, observed.keys)
        others = entries.part(~named)
        targets = self._targets(observed, state.capacities, report.noise)
        moves = moves_between(observed.keys, observed.owners, targets)
        kept = others
        if moves.keys.size:  # without a new plan the table does not grow, and nothing need go
            kept = self._kept(others, state, int((targets != observed.homes).sum()))
            gone = others.part(~routing_table.is_among(others.keys, kept.keys))
            moves = Moves(
                np.concatenate((moves.keys, gone.keys)),
                np.concatenate((moves.origins, gone.workers)),
                np.concatenate((moves.targets, routing_table.homes(gone.keys, state))),
            )
        if entries.keys.size or moves.keys.size:
            state = routing_table.moved(state, observed.keys, observed.homes, targets, kept)
        return state, moves

    def _observed(self, report: Report, state: TableState) -> Observed:
        """Return the report with the owners and homes of its keys; refuse impossible numbers."""
        rest = rest_by_worker(report, state.capacities.size)
        parts = (("loads", report.loads), ("state_sizes", report.state_sizes), ("rest", rest))
        for name, values in parts:
            if values.size and not 0.0 <= values.min() <= values.max() < np.inf:  # false for NaN
                raise ValueError(f"{name} of a report must be finite numbers of at least 0")
        owners = routing_table.owners(report.keys, state)
        homes = routing_table.homes(report.keys, state)
        loads, sizes = report.loads, report.state_sizes
        return Observed(report.keys, loads, sizes, owners, homes, rest, Orders(loads, sizes))

    def _targets(self, observed: Observed, capacities: Floats, noise: float = 0.0) -> Workers:
        """Return the worker that each observed key should have; `noise` is that of the report."""
        slack = max(self._slack(), _CHANCE * noise - self.tolerance)
        for _ in range(_MOST_PLANS):
            aims = goals(
                observed,
                self.tolerance,
                capacities,
                pin_giants=self.pin_giants,
                two_sided=self.two_sided,
                slack=slack,
            )
            if self._excess(observed, observed.owners, aims).total <= 0.0:
                return observed.owners
            pinned = with_giants_pinned(observed, aims)
            targets, aims = self._plan(pinned, aims, capacities)
            before = self._excess(observed, observed.owners, aims)
            after = self._excess(observed, targets, aims)
            if not after.is_better(before):
                return observed.owners
            observed = observed._replace(owners=targets)
        return observed.owners

    def _excess(self, observed: Observed, owners: Workers, aims: Goals) -> Excess:
        loads = worker_loads(owners, observed.costs, aims.fair.size) + observed.rest
        return excess(loads, aims)

    def _kept(self, others: Entries, state: TableState, n_entries: int) -> Entries:
        """Return which entries of keys that are not reported stay beside `n_entries` new ones.

        If the bound has no room for all, the entries go whose keys were last named longest ago.
        """
        if self.forget_after is not None:
            others = others.part(others.named_in > state.n_reports[0] - self.forget_after)
        bound = self._most_entries()
        room = others.keys.size if bound is None else max(bound - n_entries, 0)
        if others.keys.size <= room:
            return others
        latest = np.argsort(-others.named_in, kind="stable")[:room]
        stays = np.zeros(others.keys.size, np.bool_)
        stays[latest] = True
        return others.part(stays)

    def _slack(self) -> float:
        """Return by how much, in fair shares, a plan may miss what it aims at."""
        return 0.0

    def _most_entries(self) -> int | None:
        """Return the bound on the table (A_max), if there is one."""
        return None

    @abstractmethod
    def _plan(self, observed: Observed, aims: Goals, capacities: Floats) -> tuple[Workers, Goals]:
        """Return the new worker of each key, and the goals that the plan could aim at.

        Pinned keys are at their workers and stay there.
        """


@dataclass(frozen=True)
class PhasedPlanning(TableRouting):
    """The family of Mixed: plans in phases, over keys or over vectors of similar keys."""

    compact: bool = False
    discretisation: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "discretisation", 0 <= self.discretisation <= 30, "between 0 and 30")

    def _slack(self) -> float:
        return _COMPACT_ERROR if self.compact else 0.0

    def _vectors(self, observed: Observed, n_workers: int) -> Vectors:
        """Build the vectors that plans are made over: kinds of similar keys, or one per key."""
        if self.compact:
            return compact(observed, 1 << self.discretisation, n_workers)
        return full(observed)

    def _planned(
        self, observed: Observed, aims: Goals, speeds: Floats, beta: float | None, n_back: int
    ) -> Workers:
        """Return the owners by one plan, for which `n_back` keys go home first."""
        vectors = self._vectors(observed, speeds.size)
        task = problem(vectors, beta, speeds, observed.rest, aims)
        return new_owners(task, self._attempt(task, n_back), observed, beta)

    def _attempt(self, task: Problem, n_back: int) -> Attempt:
        """Return one plan. All plans of the family are made here, so they can be counted."""
        return attempt(task, n_back)
