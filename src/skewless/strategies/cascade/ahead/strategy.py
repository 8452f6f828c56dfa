"""Cascade with foresight: a batch is counted first, then all of it is decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from skewless.arrays import I64, Floats, Keys, Workers
from skewless.kernels.hashing import seed_array
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
from skewless.strategies.cascade.heavy_keys import (
    COUNTED_PER_WORKER,
    EPOCH_PER_WORKER,
    counted,
    heavy_keys,
    largest_together,
)
from skewless.strategies.cascade.orders import InOrders, slot_table, strides, weight_of
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
def route_records(keys: Keys, weights: Floats | None, state: AheadState, out: Workers) -> None:
    """Route the batch in as few blocks of about equal length as possible, each decided as one."""
    n_blocks = (keys.size + BLOCK - 1) // BLOCK
    for block in range(n_blocks):
        begin, end = keys.size * block // n_blocks, keys.size * (block + 1) // n_blocks
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


@dataclass(frozen=True)
class CascadeAhead(InOrders):
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
    _clock: ClassVar[str] = "blocks"
    _route_records = staticmethod(route_records)

    tolerance: float = 0.03

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

    def begin(self, state: AheadState, n_records: int) -> None:
        """Begin an interval of about this many records of this source; 0 if that is not known."""
        state.levels[:] = carried_levels(state)
        state.numbers[0]["weight"] = 0.0
        state.counters[0]["records"] = 0
        state.counters[0]["expected"] = n_records

    def _mean_level(self, state: AheadState) -> float:
        return float(np.average(state.levels, weights=1.0 / state.costs))

    def _rescaled(self, state: AheadState, speeds: Floats) -> AheadState:
        return state._replace(buffers=buffers(speeds.size))

    def _continued(self, merged: AheadState, own: AheadState) -> AheadState:
        """Return the state after a merge that came late: an interval as long as the last one."""
        heavy, _ = largest_together([merged.heavy, own.heavy], joined=np.maximum)
        state = copy_state(own)._replace(heavy=heavy)
        state.numbers[0]["faded"] = max(own.numbers[0]["faded"], merged.numbers[0]["faded"])
        state.counters[0]["awaiting"] = 0
        self.begin(state, _length(own))
        return state

    def condense(self, state: AheadState) -> CondensedAhead:
        """Return the counted keys with their counts, the levels and the numbers."""
        same = ("owners", "costs", "levels", "numbers", "counters")
        copies: dict[str, Any] = {name: getattr(state, name).copy() for name in same}
        return CondensedAhead(**copies, counted=counted(state.heavy)[0])

    def merge_condensed(self, parts: Sequence[CondensedAhead], fresh: AheadState) -> AheadState:
        """Return the state that `merge` makes, at the beginning of an interval like the last."""
        heavy, _ = largest_together([part.counted.counters()[0] for part in parts])
        heavy.counts[:] /= len(parts)
        first = parts[0]
        merged = copy_state(fresh)._replace(
            owners=first.owners.copy(),
            costs=first.costs.copy(),
            levels=unordered_mean([carried_levels(part) for part in parts]),
            heavy=heavy,
            numbers=first.numbers.copy(),
            counters=first.counters.copy(),
            buffers=buffers(first.levels.size),
        )
        numbers, counters = merged.numbers, merged.counters
        numbers["weight"] = 0.0
        for name in ("scale", "faded"):
            numbers[name] = unordered_mean([part.numbers[name] for part in parts])
        counters["records"] = counters["awaiting"] = 0
        counters["expected"] = -(-sum(_length(part) for part in parts) // len(parts))
        for name in ("since", "blocks"):
            counters[name] = max(int(part.counters[0][name]) for part in parts)
        return merged


def _length(part: AheadState | CondensedAhead) -> int:
    """Return the records of the interval so far, or how many were expected if there were none."""
    return int(part.counters[0]["records"] or part.counters[0]["expected"])
