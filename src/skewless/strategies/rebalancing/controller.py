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
from skewless.strategy import Moves, Report, Traits


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
        False: the table then forgets keys that are gone.
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
        return routing_table.rescaled(state, n_workers, self.virtual_nodes, capacities)

    def rebalance(self, report: Report, state: TableState) -> tuple[TableState, Moves]:
        """Return the plan for the next window; without an overloaded worker, the same as before."""
        for name, values in (("loads", report.loads), ("state_sizes", report.state_sizes)):
            if not ((values >= 0) & (values < np.inf)).all():
                raise ValueError(f"{name} of a report must be finite numbers of at least 0")
        observed = Observed(
            report.keys,
            report.loads,
            report.state_sizes,
            routing_table.owners(report.keys, state),
            routing_table.homes(report.keys, state),
        )
        loads = worker_loads(observed.owners, observed.costs, state.capacities.size)
        limits = worker_limits(float(report.loads.sum()), self.tolerance, state.capacities)
        if (loads <= limits).all():
            none = np.empty(0, np.int32)
            return state, Moves(np.empty(0, np.uint64), none, none)
        in_table = int((observed.owners != observed.homes).sum())
        n_kept = int(state.n_entries[0]) - in_table if self.keep_unreported else 0
        targets = self._plan(observed, state.capacities, n_kept)
        return routing_table.moved(
            state, observed.keys, observed.homes, observed.owners, targets, self.keep_unreported
        )

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
        return problem(vectors, beta, self.tolerance, capacities)
