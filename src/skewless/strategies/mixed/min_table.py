"""MinTable: begin with an empty table at every rebalance, so that it stays as small as possible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from skewless.arrays import Floats, Workers
from skewless.strategies.mixed.compact_representation import Observed
from skewless.strategies.mixed.controller import PhasedPlanning
from skewless.strategies.mixed.goals import Goals


@dataclass(frozen=True)
class MinTable(PhasedPlanning):
    """Send all exceptions home, then move the heaviest keys of overloaded workers.

    Few heavy keys even out the loads, so few entries are needed. The size of states is ignored: a
    key that goes home and a heavy key that leaves may both have a large state.

    **Guarantee**: that of `Mixed` for balance.

    Parameters
    ----------
    tolerance, keep_unreported, forget_after, pin_giants, two_sided, compact,
    discretisation
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
