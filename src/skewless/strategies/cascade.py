"""Cascade: a record goes to the first worker of its key's order that still has room."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from skewless.arrays import Floats, Keys, Workers
from skewless.kernels.cascading import (
    BLOCK,
    DEBT,
    EPOCH,
    GRADE,
    HEAVY,
    HEAVY_PARTS,
    KEEP,
    LAG,
    LEAST_ROOM,
    LEVEL,
    LIGHT_ROOM,
    MOST_ROOM,
    REACH,
    RECORDS,
    TO_SWEEP,
    TOP,
    TOTAL,
    WORKER,
    CascadeState,
    grade,
    home_slot,
    route_records,
)
from skewless.kernels.hashing import seed_array, seeded
from skewless.kernels.heavy_keys import ABSENT, HeavyKeys, heavy_keys, largest_together
from skewless.kernels.slot_table import reassigned, slot_table, strides
from skewless.parameters import require
from skewless.strategy import Traits

_HORIZON = 10_000  # records over which the tolerance is promised
_LEAST_ROOM_LIGHT = 7.5  # records: below that, chance alone would move light keys
_LEAST_ROOM_HEAVY = 3.25  # records: the least of what the lightest of the heavy keys may have
_COUNTED_PER_WORKER = 16
_EPOCH_PER_WORKER = 64


@dataclass(frozen=True)
class Cascade:
    """Send each record to the first worker of its key's order that has room.

    Every key has its own order of workers, by hash. Light keys stay on their first worker until it
    is clearly above the mean; heavy keys yield the sooner the heavier they are, and use no more of
    their order than they must. So the heaviest keys fill like water what the others leave, nothing
    is split without need, and sources that never talk lengthen the same orders.

    **Guarantee**: no worker gets a record while its level is more than `tolerance` · 10,000 / n
    records (7.5 at least) above the mean. So over all m records of a source, with equal workers and
    f records forgiven, the imbalance is at most (`tolerance` · 10,000 + n + f) / m, or
    (8.5 · n + f) / m where that is more. Forgiven is what a worker lags behind by more than twice
    that room when a heavy key comes to it: to make up for it would be a burst. `"splitting"` and
    `"yielding"` left out, there is no guarantee.

    Parameters
    ----------
    tolerance
        The imbalance that is accepted over a stretch of 10,000 records.
    without
        Leaves out one ingredient, to see what it is for: `"splitting"` heavy keys, `"grading"`
        them by weight, `"fading"` of old counts, or `"yielding"` of light keys.

    **Deviations from the paper**: there is none; this is our own.

    Examples
    --------
    >>> out = np.empty(12, np.int32)
    >>> strategy = Cascade()
    >>> strategy.route(np.full(12, 3, np.uint64), strategy.start(4, seed=0), out)
    >>> out.tolist()  # one key that is all there is goes round, in its order of workers
    [1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0]

    References
    ----------
    Mirrokni, Thorup, Zadimoghaddam, "Consistent hashing with bounded loads", SODA 2018, bounds the
    load of keys of equal weight by the same walk along an order.
    """

    name: ClassVar[str] = "cascade"

    tolerance: float = 0.05
    without: Literal["nothing", "splitting", "grading", "fading", "yielding"] = "nothing"

    def __post_init__(self) -> None:  # noqa: D105
        require(self, "tolerance", 0 < self.tolerance < math.inf, "a finite number above 0")
        parts = ("nothing", "splitting", "grading", "fading", "yielding")
        require(self, "without", self.without in parts, f"one of {', '.join(parts)}")

    @property
    def traits(self) -> Traits:
        """A heavy key may be anywhere."""
        return Traits(family="splitting")

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> CascadeState:
        """Return the state of a source that has sent nothing."""
        room = self.tolerance * _HORIZON / n_workers
        light_room = max(_LEAST_ROOM_LIGHT, room)
        most_room = max(_LEAST_ROOM_HEAVY, 0.5 * room)
        numbers = np.zeros(10)
        numbers[HEAVY] = 4.0
        numbers[DEBT] = 2.0 * light_room
        numbers[LIGHT_ROOM] = np.inf if self.without == "yielding" else light_room
        numbers[LEAST_ROOM] = -LAG
        numbers[GRADE] = 0.0 if self.without == "grading" else most_room / 4.0
        numbers[MOST_ROOM] = np.inf if self.without == "splitting" else most_room
        numbers[KEEP] = 1.0 if self.without == "fading" else 0.8
        if self.without == "splitting":
            numbers[LEAST_ROOM] = np.inf
        heavy = heavy_keys(_COUNTED_PER_WORKER * n_workers)
        n_places = heavy.keys.size
        epoch = _EPOCH_PER_WORKER * n_workers
        n_spots = 1 << (4 * n_places - 1).bit_length()
        return CascadeState(
            seed=seed_array(seed, 1),
            owners=slot_table(n_workers),
            strides=strides(n_workers),
            levels=np.zeros(n_workers),
            costs=np.ones(n_workers),
            heavy=heavy,
            spot=np.full(n_spots, ABSENT, np.int32),
            marks=np.tile([numbers[LIGHT_ROOM], numbers[HEAVY], 0.0, 0.0], (n_places, 1)),
            cursors=np.tile([1, 0, 0, 0], (n_places, 1)),
            hashes=np.zeros(BLOCK, np.uint64),
            numbers=numbers,
            counters=np.array([0, epoch, epoch]),
        )

    def route(self, keys: Keys, state: CascadeState, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        route_records(keys, _NO_WEIGHTS, state, out)

    def route_weighted(
        self, keys: Keys, weights: Floats, state: CascadeState, out: Workers
    ) -> None:
        """Fill `out` with the worker of each record, where a record costs its weight."""
        route_records(keys, weights, state, out)

    def rescale(
        self, state: CascadeState, n_workers: int, capacities: Floats | None = None
    ) -> CascadeState:
        """Return the state for other workers; the fewest possible slots change owner.

        A worker that joins begins at the mean, so that it is not flooded. Heavy keys begin again
        with the first worker of their order.
        """
        speeds = np.ones(n_workers) if capacities is None else np.asarray(capacities, np.float64)
        fresh = self.start(n_workers, 0)
        level = state.numbers[LEVEL]
        levels = np.full(n_workers, level)
        stay = min(n_workers, state.levels.size)
        levels[:stay] = state.levels[:stay]
        levels += level - np.average(levels, weights=speeds)
        numbers = fresh.numbers.copy()
        for position in (LEVEL, TOTAL, TOP):
            numbers[position] = state.numbers[position]
        numbers[HEAVY] = state.numbers[HEAVY] * state.levels.size / n_workers
        rescaled = state._replace(
            owners=reassigned(state.owners, n_workers, speeds),
            strides=strides(n_workers),
            levels=levels,
            costs=speeds.mean() / speeds,
            heavy=HeavyKeys(*(array.copy() for array in state.heavy)),
            spot=np.full_like(state.spot, ABSENT),
            marks=np.tile(fresh.marks[0], (state.marks.shape[0], 1)),
            cursors=np.tile(fresh.cursors[0], (state.cursors.shape[0], 1)),
            hashes=state.hashes.copy(),
            numbers=numbers,
            counters=state.counters.copy(),
        )
        _place_heavy_keys(rescaled)
        return rescaled

    def merge(self, states: Sequence[CascadeState]) -> CascadeState:
        """Return what all sources know: reaches are the longest, counts and levels are means.

        Means, because every source continues with a copy: sums would count what was merged before
        once more with every merge, and all sources would make up for the same worker at once.
        """
        first = states[0]
        heavy, reaches = largest_together(
            [state.heavy for state in states], [state.cursors[:, REACH] for state in states]
        )
        heavy.counts[:] /= len(states)
        # As many places as the states have: the number of workers may have changed since the start.
        fresh = self.start(first.levels.size, 0)
        merged = fresh._replace(
            heavy=heavy,
            spot=np.full_like(first.spot, ABSENT),
            marks=np.tile(fresh.marks[0], (reaches.size, 1)),
            cursors=np.tile(fresh.cursors[0], (reaches.size, 1)),
        )
        merged.cursors[:, REACH] = reaches
        numbers = merged.numbers
        numbers[TOTAL] = _mean([np.array(s.numbers[TOTAL] / s.heavy.unit[0]) for s in states])
        numbers[LEVEL] = _mean([np.array(s.numbers[LEVEL]) for s in states])
        numbers[HEAVY] = numbers[TOTAL] / first.levels.size / HEAVY_PARTS
        records = max(int(state.counters[RECORDS]) for state in states)
        counters = first.counters.copy()
        counters[RECORDS] = records
        counters[TO_SWEEP] = records + counters[EPOCH]
        result = merged._replace(
            seed=first.seed.copy(),
            owners=first.owners.copy(),
            strides=first.strides.copy(),
            levels=_mean([state.levels for state in states]),
            costs=first.costs.copy(),
            counters=counters,
        )
        _place_heavy_keys(result)
        return result


def _mean(arrays: Sequence[Floats]) -> Floats:
    """Return the mean, to the last bit the same for any order of the arrays."""
    mean: Floats = np.sort(np.stack(arrays), axis=0).mean(axis=0)
    return mean


def _place_heavy_keys(state: CascadeState) -> None:
    """Grade all counted keys and put each at the first worker of its order."""
    state.numbers[TOP] = state.heavy.counts.max()
    for place in np.flatnonzero(state.heavy.counts > 0):
        hashed = np.uint64(seeded(state.heavy.keys[place], state.seed[0]))
        state.cursors[place, WORKER] = state.owners[home_slot(hashed, state.owners.size)]
        grade(state, place)


_NO_WEIGHTS = np.empty(0)
