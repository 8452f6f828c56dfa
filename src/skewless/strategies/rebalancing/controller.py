"""What the strategies with a routing table share: routing, rescaling, and when to make a plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from skewless.arrays import Floats, Keys, Workers
from skewless.parameters import MOST_POINTS, check_types, require, require_count
from skewless.strategies.rebalancing import routing_table
from skewless.strategies.rebalancing.phases import Problem, problem, worker_limits, worker_loads
from skewless.strategies.rebalancing.routing_table import TableState
from skewless.strategies.rebalancing.vectors import Observed, compact, full
from skewless.strategy import Moves, Report, Traits, require_all_stay, rest_by_worker


@dataclass(frozen=True)
class TableRouting(ABC):
    """A routing table over a ring, and a controller that makes a plan when a worker has too much.

    Parameters
    ----------
    tolerance
        θ_max: a worker may have (1 + tolerance) times its fair share of the load.
    virtual_nodes
        Points per worker on the ring.
    keep_unreported
        Keep table entries of keys that the report does not name: such a key may have state that
        nobody reported, and would lose it. Where reports name every key that has state, say
        False: the table then forgets keys that are gone. A report with a `rest` does not name
        every key. So an entry is forgotten only if its worker has no rest: then all records of
        that worker are accounted for, and the key had none.
    """

    tolerance: float = 0.08
    virtual_nodes: int = 128
    keep_unreported: bool = True

    def __post_init__(self) -> None:  # noqa: D105
        check_types(self)
        allowed = 0 <= self.tolerance < float("inf")
        require(self, "tolerance", allowed, "a finite number of at least 0")
        require_count(self, "virtual_nodes", most=MOST_POINTS)

    @property
    def traits(self) -> Traits:
        """One worker per key, and a table that survives other workers' coming and going."""
        return Traits(family="moving", fan_out=1, minimal_rescale=True)

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> TableState:
        """Return the ring with an empty table."""
        return routing_table.start_table(n_workers, seed, self.virtual_nodes)

    def route(self, keys: Keys, state: TableState, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        routing_table.route_by_table(keys, state, out)

    def rescale(
        self, state: TableState, n_workers: int, capacities: Floats | None = None
    ) -> TableState:
        """Return the state for other workers; the next rebalance evens out their loads."""
        require_all_stay(type(self).__name__, capacities)
        return routing_table.rescaled(state, n_workers, self.virtual_nodes, capacities)

    def rebalance(self, report: Report, state: TableState) -> tuple[TableState, Moves]:
        """Return the plan for the next window; without an overloaded worker, the same as before."""
        rest = rest_by_worker(report, state.capacities.size)
        parts = (("loads", report.loads), ("state_sizes", report.state_sizes), ("rest", rest))
        for name, values in parts:
            if not ((values >= 0) & (values < np.inf)).all():
                raise ValueError(f"{name} of a report must be finite numbers of at least 0")
        observed = Observed(
            report.keys,
            report.loads,
            report.state_sizes,
            routing_table.owners(report.keys, state),
            routing_table.homes(report.keys, state),
            rest,
        )
        loads = worker_loads(observed.owners, observed.costs, state.capacities.size) + rest
        total = float(report.loads.sum()) + float(rest.sum())
        limits = worker_limits(total, self.tolerance, state.capacities)
        if report.keys.size == 0 or (loads <= limits).all():
            none = np.empty(0, np.int32)
            return state, Moves(np.empty(0, np.uint64), none, none)
        kept = self._kept(observed, state)
        targets = self._plan(observed, state.capacities, kept[0].size)
        return routing_table.moved(
            state, observed.keys, observed.homes, observed.owners, targets, kept
        )

    def _kept(self, observed: Observed, state: TableState) -> tuple[Keys, Workers]:
        """Return the entries of keys that are not reported, as far as they stay in the table."""
        keys, workers = routing_table.unreported(state, observed.keys)
        stay = (observed.rest[workers] > 0.0) | self.keep_unreported
        return keys[stay], workers[stay]

    @abstractmethod
    def _plan(self, observed: Observed, capacities: Floats, n_kept: int) -> Workers:
        """Return the new worker of each key; `n_kept` entries of other keys stay in the table."""


@dataclass(frozen=True)
class PhasedPlanning(TableRouting):
    """The family of Mixed: plans in phases, over keys or over vectors of similar keys.

    Parameters
    ----------
    compact
        Plan over discretised vectors of keys instead of single keys.
    discretisation
        r: the degree of discretisation is R = 2^r.
    """

    compact: bool = False
    discretisation: int = 3

    def __post_init__(self) -> None:  # noqa: D105
        super().__post_init__()
        require(self, "discretisation", 0 <= self.discretisation <= 30, "between 0 and 30")

    def _problem(self, observed: Observed, capacities: Floats, beta: float | None) -> Problem:
        if self.compact:
            vectors = compact(observed, 1 << self.discretisation, capacities.size)
        else:
            vectors = full(observed)
        return problem(vectors, beta, self.tolerance, capacities, observed.rest)
