"""Cascade with foresight: a batch is counted first, then all of it is decided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from skewless.arrays import I64, Floats, Keys, Workers, read_only
from skewless.kernels.hashing import seed_array
from skewless.parameters import check_types, require, require_all_stay
from skewless.plumbing.compiling import kernel
from skewless.plumbing.order_free import unordered_mean
from skewless.state import copy_state
from skewless.strategies.cascade.ahead.placing import place_block
from skewless.strategies.cascade.ahead.state import (
    BLOCK,
    COUNTERS,
    NO_PIECE,
    NUMBERS,
    AheadState,
    CondensedAhead,
    buffers,
    carried_levels,
    count_block,
    remember,
)
from skewless.strategies.cascade.condensing import counted
from skewless.strategies.cascade.heavy_keys import (
    COUNTED_PER_WORKER,
    EPOCH_PER_WORKER,
    heavy_keys,
    largest_together,
)
from skewless.strategies.cascade.state import (
    homes_of,
    reassigned,
    slot_table,
    strides,
    weight_of,
)
from skewless.strategy import Traits


@kernel
def _send(weights: Floats | None, state: AheadState, out: Workers, begin: I64, end: I64) -> None:
    """Send records begin … end − 1: those of each key to its pieces, one piece after the other."""
    buffers, levels, costs = state.buffers, state.levels, state.costs
    heads, after, sizes = buffers.heads, buffers.after, buffers.sizes
    for i in range(begin, end):
        weight = weight_of(weights, i)
        # Indices are unsigned: a signed index may be negative, and that costs a test.
        number = np.uint64(buffers.which[i - begin])
        piece = np.uint64(heads[number])
        # A record belongs to a piece if at least half of it fits.
        while sizes[piece] < 0.5 * weight and after[piece] != NO_PIECE:
            piece = np.uint64(after[piece])
            heads[number] = np.int32(piece)
        worker = np.uint64(buffers.workers[piece])
        sizes[piece] -= weight
        levels[worker] += weight * costs[worker]
        out[i] = np.int32(worker)


@kernel
def _route_block(
    keys: Keys, weights: Floats | None, state: AheadState, out: Workers, begin: I64, end: I64
) -> None:
    """Decide records begin … end − 1 together, at most BLOCK of them."""
    n_records = end - begin
    n_keys, total = count_block(keys, weights, state, begin, end)
    if total / n_records > 0.0:  # records may weigh nothing
        state.numbers[0]["scale"] = total / n_records
    remember(state, n_keys, n_records, total)
    place_block(state, n_keys, n_records, total)
    _send(weights, state, out, begin, end)
    state.numbers[0]["weight"] += total
    state.counters[0]["records"] += n_records
    state.counters[0]["blocks"] += 1


@kernel
def route_records(keys: Keys, weights: Floats | None, state: AheadState, out: Workers) -> None:
    """Route the batch in as few blocks of about equal length as possible."""
    n_blocks = (keys.size + BLOCK - 1) // BLOCK
    for block in range(n_blocks):
        begin = keys.size * block // n_blocks
        _route_block(keys, weights, state, out, begin, keys.size * (block + 1) // n_blocks)


@dataclass(frozen=True)
class CascadeAhead:
    """Count the keys of a batch, then fill all workers up to one level.

    Every key has its own order of workers, by hash. Light keys stay on their first worker while
    that is within the tolerance. All other records fill the workers up to one level, key by key,
    the heaviest last: each takes what is left on the first workers of its order. So a batch has at
    most n pieces more than it must, and all sources cut the same keys in the same places.

    **Guarantee**, with equal workers and records that all weigh the same: of the m records of a
    source in an interval, no worker gets more than m / n + max(`tolerance` · m / n, 1) + 2. (If
    more records were expected than came, m is what was expected.) A batch has at most one piece per
    key, one more per worker, and one more per light key that has no room at home. With other
    weights each piece may be off by half a record; later blocks make up for it.

    Parameters
    ----------
    tolerance
        The imbalance that is accepted over an interval, before a light key leaves its worker. An
        interval lasts from one merge to the next, or as long as `begin` says. If the length is not
        known, it is the number of records so far.

    **Deviations from the paper**: there is no paper, the strategy is our own. A worked example is
    in `docs/strategies/cascade-ahead.md`.

    Examples
    --------
    >>> out = np.empty(8, np.int32)
    >>> strategy = CascadeAhead()
    >>> keys = np.array([5, 5, 5, 5, 5, 6, 7, 8], np.uint64)
    >>> strategy.route(keys, strategy.start(2, seed=0), out)
    >>> np.bincount(out).tolist()
    [4, 4]

    References
    ----------
    R. McNaughton, "Scheduling with deadlines and loss functions", Management Science 6(1), 1959:
    one more piece per worker is enough if all records are known.
    """

    name: ClassVar[str] = "cascade-ahead"
    traits: ClassVar[Traits] = Traits(family="splitting", decides="batch")

    tolerance: float = 0.03

    def __post_init__(self) -> None:
        check_types(self)
        require(self, "tolerance", 0 < self.tolerance < math.inf, "a finite number above 0")

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> AheadState:
        """Return the state of a source that has sent nothing."""
        numbers = np.zeros(1, NUMBERS)
        numbers["scale"] = 1.0
        numbers["tolerance"] = self.tolerance
        counters = np.zeros(1, COUNTERS)
        counters["epoch"] = EPOCH_PER_WORKER * n_workers
        return AheadState(
            seed=seed_array(seed, 1),
            owners=slot_table(n_workers),
            strides=strides(n_workers),
            costs=np.ones(n_workers),
            levels=np.zeros(n_workers),
            heavy=heavy_keys(COUNTED_PER_WORKER * n_workers),
            numbers=numbers,
            counters=counters,
            buffers=buffers(n_workers),
        )

    def route(self, keys: Keys, state: AheadState, out: Workers) -> None:
        """Fill `out` with the worker of each record of this batch."""
        route_records(read_only(keys), None, state, out)

    def route_weighted(self, keys: Keys, weights: Floats, state: AheadState, out: Workers) -> None:
        """Fill `out` with the worker of each record, where a record costs its weight."""
        route_records(read_only(keys), read_only(weights), state, out)

    def begin(self, state: AheadState, n_records: int) -> None:
        """Begin an interval of about this many records of this source; 0 if that is not known."""
        state.levels[:] = carried_levels(state)
        state.numbers[0]["weight"] = 0.0
        state.counters[0]["records"] = 0
        state.counters[0]["expected"] = n_records

    def homes(self, keys: Keys, state: AheadState) -> Workers:
        """Return the first worker in the order of each key."""
        return homes_of(keys, state)

    def rescale(
        self, state: AheadState, n_workers: int, capacities: Floats | None = None
    ) -> AheadState:
        """Return the state for other workers; the fewest possible slots change owner.

        A worker that joins begins at the mean, so that it is not flooded.
        """
        require_all_stay(self.name, capacities)
        speeds = np.ones(n_workers) if capacities is None else np.asarray(capacities, np.float64)
        mean = np.average(state.levels, weights=1.0 / state.costs)
        levels = np.full(n_workers, mean)
        stay = min(n_workers, state.levels.size)
        levels[:stay] = state.levels[:stay]
        return copy_state(state)._replace(
            owners=reassigned(state.owners, n_workers, speeds),
            strides=strides(n_workers),
            costs=speeds.mean() / speeds,
            levels=levels,
            buffers=buffers(n_workers),
        )

    def wait(self, state: AheadState) -> None:
        """Note that a copy of `state` has been sent: the merge does not include what follows."""
        state.counters[0]["awaiting"] = 1 + state.counters[0]["blocks"]

    def merge(self, states: Sequence[AheadState]) -> AheadState:
        """Return the merged state, at the beginning of an interval as long as the last one.

        Counts and levels become means, because every source continues with a copy.
        """
        return self.merge_condensed([self.condense(state) for state in states], states[0])

    def fork(self, merged: AheadState, own: AheadState, source: int) -> AheadState:
        """Return the state with which a source continues: `merged`, unless that came late.

        It came late if the source has sent records since its message: `merged` lacks them. The
        source then keeps its own levels, in an interval as long as its last one. Each key gets the
        larger count.
        """
        if own.counters[0]["awaiting"] in (0, 1 + own.counters[0]["blocks"]):
            return copy_state(merged)
        heavy, _ = largest_together([merged.heavy, own.heavy], joined=np.maximum)
        state = copy_state(own)._replace(heavy=heavy)
        state.numbers[0]["faded"] = max(own.numbers[0]["faded"], merged.numbers[0]["faded"])
        state.counters[0]["awaiting"] = 0
        self.begin(state, int(own.counters[0]["records"] or own.counters[0]["expected"]))
        return state

    def condense(self, state: AheadState) -> CondensedAhead:
        """Return the counted keys with their counts, the levels and the numbers."""
        keys, _ = counted(state.heavy)
        owners, costs, levels = (a.copy() for a in (state.owners, state.costs, state.levels))
        numbers, counters = state.numbers.copy(), state.counters.copy()
        return CondensedAhead(owners, costs, levels, keys, numbers, counters)

    def merge_condensed(self, parts: Sequence[CondensedAhead], fresh: AheadState) -> AheadState:
        """Return the state that `merge` makes of the same sources."""
        heavy, _ = largest_together([part.counted.counters()[0] for part in parts])
        heavy.counts[:] /= len(parts)
        numbers, counters = parts[0].numbers.copy(), parts[0].counters.copy()
        numbers["weight"] = 0.0
        for name in ("scale", "faded"):
            numbers[name] = unordered_mean([part.numbers[name] for part in parts])
        counters["records"] = counters["awaiting"] = 0
        lengths = [
            int(part.counters[0]["records"] or part.counters[0]["expected"]) for part in parts
        ]
        counters["expected"] = -(-sum(lengths) // len(parts))
        for name in ("since", "blocks"):
            counters[name] = max(int(part.counters[0][name]) for part in parts)
        return AheadState(
            seed=fresh.seed.copy(),
            owners=parts[0].owners.copy(),
            strides=fresh.strides.copy(),
            costs=parts[0].costs.copy(),
            levels=unordered_mean([carried_levels(part) for part in parts]),
            heavy=heavy,
            numbers=numbers,
            counters=counters,
            buffers=buffers(parts[0].levels.size),
        )
