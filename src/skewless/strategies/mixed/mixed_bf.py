"""Mixed_BF: Mixed's attempts by brute force, one for each number of keys that leave the table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from skewless.arrays import Floats, Workers
from skewless.strategies.mixed.compact_representation import Observed
from skewless.strategies.mixed.goals import Goals
from skewless.strategies.mixed.mixed import Mixed, n_in_table
from skewless.strategies.mixed.phases import Attempt, Problem


@dataclass(frozen=True)
class MixedBruteForce(Mixed):
    """Try every number of keys to send home, and take the plan that moves the least state.

    It shows how much Mixed loses by its few attempts. Each attempt costs as much as one of Mixed
    and there are as many as the table has entries.

    **Guarantee**: that of `Mixed`. Of all plans that Mixed could try with this report, no plan
    within the bounds moves less state (in the compact form: by its discretised sizes).

    Parameters
    ----------
    tolerance, keep_unreported, forget_after, pin_giants, two_sided, compact,
    discretisation, beta, max_entries, keep_bound
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

    def _plan(self, observed: Observed, aims: Goals, capacities: Floats) -> tuple[Workers, Goals]:
        if self.max_entries is None:  # every attempt fits, and still moves more or less state
            return replace(self, max_entries=observed.keys.size)._plan(observed, aims, capacities)
        return super()._plan(observed, aims, capacities)

    def _search(self, task: Problem, room: float) -> Attempt:
        plans = (self._attempt(task, n_back) for n_back in range(n_in_table(task) + 1))
        return min(plans, key=lambda p: (p.n_entries > room, not p.is_balanced, p.state_moved))
