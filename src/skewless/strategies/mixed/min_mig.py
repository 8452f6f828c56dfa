"""MinMig: move the keys with the most load for their state, and leave all others where they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from skewless.arrays import Floats, Workers
from skewless.parameters import require
from skewless.strategies.mixed.compact_representation import Observed
from skewless.strategies.mixed.controller import PhasedPlanning
from skewless.strategies.mixed.goals import Goals


@dataclass(frozen=True)
class MinMig(PhasedPlanning):
    """Clean nothing, and give up keys with a high cost^β / state first.

    Little state moves. In return the table grows with every rebalance, up to nearly all keys.

    **Guarantee**: that of `Mixed` for balance; none for the table.

    Parameters
    ----------
    beta
        How much more the load of a key counts than its state when keys to move are chosen.
    tolerance, keep_unreported, forget_after, pin_giants, two_sided, compact,
    discretisation
        As those of `Mixed`.

    **Deviations from the paper**: those of `Mixed` that concern LLFD.

    Examples
    --------
    >>> import numpy as np
    >>> from skewless.strategy import Report
    >>> strategy = MinMig()
    >>> state = strategy.start(2, seed=184)
    >>> keys = np.arange(1, 7, dtype=np.uint64)  # of which the ring gives 3 and 5 to worker 0
    >>> loads = np.array([5.0, 4.0, 3.0, 2.0, 1.0, 1.0])
    >>> sizes = np.array([9.0, 1.0, 3.0, 2.0, 1.0, 1.0])
    >>> state, moves = strategy.rebalance(Report(keys, loads, sizes), state)
    >>> moves.keys.tolist(), int(state.n_entries[0])
    ([2], 1)

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
