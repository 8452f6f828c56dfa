"""Cascade with foresight: a batch is counted first, then all of it is decided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skewless.arrays import Floats, Keys, Workers
from skewless.kernels.hashing import seed_array
from skewless.parameters import check_types, require
from skewless.state import copy_state
from skewless.strategies.cascade.ahead.routing import route_records
from skewless.strategies.cascade.ahead.state import (
    COUNTERS,
    EXPECTED,
    NUMBERS,
    RECORDS,
    SCALE,
    WEIGHT,
    AheadState,
    CondensedAhead,
    buffers,
)
from skewless.strategies.cascade.slot_table import reassigned, slot_table, strides
from skewless.strategy import Traits


@dataclass(frozen=True)
class CascadeAhead:
    """Count the keys of a batch, then send each to the first workers of its order with room."""

    name: ClassVar[str] = "cascade-ahead"

    tolerance: float = 0.03

    def __post_init__(self) -> None:  # noqa: D105
        check_types(self)
        require(self, "tolerance", 0 < self.tolerance < math.inf, "a finite number above 0")

    @property
    def traits(self) -> Traits:
        """A heavy key may be anywhere."""
        return Traits(family="splitting", decides="batch")

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> AheadState:
        """Return the state of a source that has sent nothing."""
        numbers = np.zeros(NUMBERS)
        numbers[SCALE] = 1.0
        return AheadState(
            seed=seed_array(seed, 1),
            owners=slot_table(n_workers),
            strides=strides(n_workers),
            costs=np.ones(n_workers),
            levels=np.zeros(n_workers),
            tolerance=np.array([float(self.tolerance)]),
            numbers=numbers,
            counters=np.zeros(COUNTERS, np.int64),
            buffers=buffers(n_workers),
        )

    def route(self, keys: Keys, state: AheadState, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        route_records(keys, None, state, out)

    def route_weighted(self, keys: Keys, weights: Floats, state: AheadState, out: Workers) -> None:
        """Fill `out` with the worker of each record, where a record costs its weight."""
        route_records(keys, weights, state, out)

    def begin(self, state: AheadState, n_records: int) -> None:
        """Begin an interval."""
        state.levels[:] = _carried(state)
        state.numbers[WEIGHT] = 0.0
        state.counters[EXPECTED] = n_records
        state.counters[RECORDS] = 0


def _carried(part: AheadState | CondensedAhead) -> Floats:
    if part.counters[RECORDS] == 0:
        return part.levels.copy()
    mean = np.average(part.levels, weights=1.0 / part.costs)
    scale = part.numbers[SCALE]
    carried: Floats = np.clip(part.levels - mean, -scale, scale)
    return carried
