"""What a merge needs of a state of Cascade with foresight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from skewless.arrays import Floats, Rows, Workers
from skewless.state import require_same
from skewless.strategies.cascade.ahead.state import AheadState, check_numbers
from skewless.strategies.cascade.condensing import Counted, counted
from skewless.strategies.cascade.heavy_keys import HeavyKeys, largest_together


class CondensedAhead(NamedTuple):
    """What is counted; other fields are as in `AheadState`."""

    owners: Workers
    costs: Floats
    levels: Floats
    counted: Counted
    numbers: Rows
    counters: Rows

    @property
    def grows(self) -> tuple[str, ...]:
        """Names of the fields whose length is the number of counted keys."""
        return ("counted.keys", "counted.counts")

    def check(self, fresh: CondensedAhead) -> None:
        """Refuse workers and places that do not exist, and values that are out of range."""
        for name in ("owners", "costs"):
            require_same(name, getattr(self, name), getattr(fresh, name))
        check_numbers(self, fresh)


def condense(state: AheadState) -> CondensedAhead:
    """Copy the fields of `state` that a merge needs, and only the counted keys."""
    return CondensedAhead(
        owners=state.owners.copy(),
        costs=state.costs.copy(),
        levels=state.levels.copy(),
        counted=counted(state.heavy)[0],
        numbers=state.numbers.copy(),
        counters=state.counters.copy(),
    )


def counted_together(parts: Sequence[CondensedAhead]) -> HeavyKeys:
    """Return the counters of the largest keys of all sources, with mean counts."""
    found = [part.counted.counters()[0] for part in parts]
    heavy, _ = largest_together(found, [np.ones(each.keys.size, np.int64) for each in found])
    heavy.counts[:] /= len(parts)
    return heavy


def carried_levels(part: AheadState | CondensedAhead) -> Floats:
    """Return the levels with which the next interval begins.

    None is further from the mean than an average record. So the next interval corrects rounding
    errors, but not what a whole interval left unbalanced.
    """
    if part.counters[0]["records"] == 0:
        kept: Floats = part.levels.copy()
        return kept
    mean = np.average(part.levels, weights=1.0 / part.costs)
    scale = part.numbers[0]["scale"]
    levels: Floats = np.clip(part.levels - mean, -scale, scale)
    return levels
