"""Cascade: a record goes to the first worker of its key's order that still has room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from skewless.arrays import Floats, Ints, Rows
from skewless.kernels.hashing import seed_array
from skewless.plumbing.order_free import unordered_mean
from skewless.state import copy_state, zeros
from skewless.strategies.cascade.counting import FIRST_HEAVY, notice, prepare, stretch, watch
from skewless.strategies.cascade.filling import lower_bounds
from skewless.strategies.cascade.heavy_keys import (
    COUNTED_PER_WORKER,
    EPOCH_PER_WORKER,
    HeavyKeys,
    counted,
    heavy_keys,
    largest_together,
)
from skewless.strategies.cascade.orders import InOrders, resized, slot_table, strides
from skewless.strategies.cascade.routing import route_records
from skewless.strategies.cascade.state import (
    BLOCK,
    COUNT_EVERY,
    COUNTERS,
    CURSORS,
    HEAVY_PARTS,
    MARKS,
    NUMBERS,
    ROOMS,
    SPOTS_PER_SLOT,
    WAITING,
    CascadeState,
    CondensedCascade,
)
from skewless.strategy import Traits

_HORIZON = 10_000  # records over which the tolerance is promised
_LEAST_ROOM_LIGHT = 7.5  # records: below that, chance alone would move light keys
_LEAST_ROOM_HEAVY = 4.5  # records: the least room of the lightest heavy keys
# A heavy key may have half of the room of a light one: it leaves a worker before light keys must.
_HEAVY_PER_LIGHT = 0.5
_LAG = 1.0  # records: the heaviest key first fills workers that are this far behind the mean
_RISE = 1.0  # records by which a floor rises when the key has gone through its reach
_DEBT_PER_ROOM = 2.0  # rooms of light keys: what a worker lags beyond that is forgiven
_KEPT_BY_A_SWEEP = 0.8  # of every count: old records fade
_HANDICAP_PER_SWEEP = 0.1  # of the excess of a worker above the mean
_GRADES = 4.0  # halvings of the count from the heaviest key to the most room


@dataclass(frozen=True)
class Cascade(InOrders):
    """Send each record to the first worker of its key's order that has room.

    Every key has its own order of workers, by hash. A light key stays on its first worker until
    that is clearly above the mean. The heavier a key, the sooner it leaves a worker; it uses no
    more of its order than it must. So the heaviest keys fill the gaps that the others leave,
    nothing is split without need, and sources that exchange nothing extend the same orders.

    **Guarantee**: no worker gets a record while its level is more than `tolerance` · 10,000 / n
    records (7.5 at least) above the mean. So over all m records of a source, with equal workers and
    f records forgiven, the imbalance is at most (2 · `tolerance` · 10,000 + n + f) / m, or
    (16 · n + f) / m where that is more; half of it is for handicaps. When a heavy key comes to a
    worker that lags more than twice that room behind the mean, the rest of the lag is forgiven,
    because making up for it would need a burst. There is no guarantee without `"splitting"` or
    `"yielding"`. Where records have weights, a record in these numbers has the average weight.

    Parameters
    ----------
    tolerance
        The imbalance that is accepted over a stretch of 10,000 records.
    without
        Leaves out one ingredient, to see what it is for: `"splitting"` heavy keys, `"grading"`
        them by weight, `"fading"` of old counts, `"yielding"` of light keys, or the `"handicaps"`
        of workers above the mean.

    **Deviations from the paper**: there is no paper, the strategy is our own. A worked example is
    in `docs/strategies/cascade.md`.

    Examples
    --------
    >>> out = np.empty(1000, np.int32)
    >>> strategy = Cascade()
    >>> strategy.route(np.full(1000, 3, np.uint64), strategy.start(4, seed=0), out)
    >>> np.bincount(out).tolist()  # the only key must be on every worker
    [249, 251, 250, 250]

    References
    ----------
    Mirrokni, Thorup, Zadimoghaddam, "Consistent hashing with bounded loads", SODA 2018, bounds the
    load of keys of equal weight by the same walk along an order.
    """

    name: ClassVar[str] = "cascade"
    traits: ClassVar[Traits] = Traits(family="splitting")
    _clock: ClassVar[str] = "records"
    _route_records = staticmethod(route_records)

    tolerance: float = 0.05
    without: Literal["nothing", "splitting", "grading", "fading", "yielding", "handicaps"] = (
        "nothing"
    )

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> CascadeState:
        """Return the state of a source that has sent nothing."""
        heavy = heavy_keys(COUNTED_PER_WORKER * n_workers)
        n_rows = heavy.keys.size
        owners = slot_table(n_workers)
        epoch = EPOCH_PER_WORKER * n_workers
        numbers = np.zeros(1, NUMBERS)
        numbers["heavy"] = FIRST_HEAVY
        numbers["scale"] = 1.0
        numbers["keep"] = 1.0 if self.without == "fading" else _KEPT_BY_A_SWEEP
        numbers["handicap"] = 0.0 if self.without == "handicaps" else _HANDICAP_PER_SWEEP
        state = zeros(
            CascadeState,
            n_workers,
            seed=seed_array(seed, 1),
            owners=owners,
            strides=strides(n_workers),
            costs=np.ones(n_workers),
            bounds=lower_bounds(np.zeros(n_workers)),
            heavy=heavy,
            watched=n_rows,
            spots=SPOTS_PER_SLOT * owners.size,
            marks=np.zeros(n_rows, MARKS),
            hashes=BLOCK,
            starts=BLOCK,
            aside=BLOCK // COUNT_EVERY,
            aside_weights=BLOCK // COUNT_EVERY,
            numbers=numbers,
            rooms=self._rooms(n_workers),
            counters=np.zeros(1, COUNTERS),
            **_rows(n_rows, n_workers),
        )
        state.counters["sweep_at"] = state.counters["epoch"] = epoch
        state.counters[0]["look_at"] = stretch(epoch)
        prepare(state)
        return state

    def _rooms(self, n_workers: int) -> Rows:
        """Compute how far above the mean keys leave a worker, where an average record weighs 1."""
        room = self.tolerance * _HORIZON / n_workers
        light = max(_LEAST_ROOM_LIGHT, room)
        most = max(_LEAST_ROOM_HEAVY, _HEAVY_PER_LIGHT * room)
        rooms = np.zeros(1, ROOMS)
        rooms["light"] = np.inf if self.without == "yielding" else light
        rooms["debt"] = _DEBT_PER_ROOM * light
        rooms["least"] = np.inf if self.without == "splitting" else -_LAG
        rooms["per_halving"] = 0.0 if self.without == "grading" else most / _GRADES
        rooms["most"] = np.inf if self.without == "splitting" else most
        rooms["lag"] = _LAG
        rooms["rise"] = _RISE
        return rooms

    def _mean_level(self, state: CascadeState) -> float:
        return float(state.numbers[0]["level"])

    def _rescaled(self, state: CascadeState, speeds: Floats) -> CascadeState:
        """Return the state in which heavy keys begin again with the first worker of their order."""
        n_before, n_workers = state.handicaps.size, speeds.size
        behind = state.numbers[0]["level"] - np.average(state.levels, weights=speeds)
        levels = state.levels + behind
        state.numbers[0]["heavy"] *= n_before / n_workers
        rescaled = state._replace(
            levels=levels,
            handicaps=resized(state.handicaps, n_workers, 0.0),
            bounds=lower_bounds(levels),
            rooms=self._rooms(n_workers),
            **_rows(state.heavy.keys.size, n_workers),
        )
        prepare(rescaled)
        return rescaled

    def _continued(self, merged: CascadeState, own: CascadeState) -> CascadeState:
        """Return the state after a merge that came late: each key gets the longer reach."""
        states = (merged, own)
        reaches = [state.cursors["reach"].astype(np.int64) for state in states]
        heavy, longest = largest_together([s.heavy for s in states], reaches, np.maximum)
        state = _with_keys(copy_state(own), heavy, longest)
        since, counters = _since_sweep(own), state.counters[0]
        if _faded(merged) > _faded(own):
            state.numbers["weight"] = 0.0
            state.numbers["old_weight"], state.numbers["old_records"] = _faded(merged)
            counters["known"] = since
        counters["awaiting"] = 0
        counters["varies"] = max(counters["varies"], merged.counters[0]["varies"])
        _begin_block(state, int(counters["records"]), since, int(stretch(counters["epoch"])))
        watch(state)
        prepare(state)
        return state

    def condense(self, state: CascadeState) -> CondensedCascade:
        """Return the counted keys with their counts and reaches, the levels and the numbers."""
        same = ("owners", "levels", "handicaps", "costs", "numbers", "counters")
        copies: dict[str, Any] = {name: getattr(state, name).copy() for name in same}
        keys, used = counted(state.heavy)
        reaches, watched = state.cursors["reach"][used], state.watched[used]
        wide, recent = np.flatnonzero(reaches > 1), np.flatnonzero(watched != keys.counts)
        return CondensedCascade(
            **copies,
            counted=keys,
            recent=recent.astype(np.int32),
            watched=watched[recent],
            wide=wide.astype(np.int32),
            reaches=reaches[wide],
        )

    def merge_condensed(
        self, parts: Sequence[CondensedCascade], fresh: CascadeState
    ) -> CascadeState:
        """Return the state that `merge` makes: each key has its longest reach.

        Epochs continue across a merge. Otherwise counts would never fade where merges are more
        frequent than epochs.
        """
        first = parts[0]
        heavies, all_reaches = [], []
        for part in parts:
            its_heavy, places = part.counted.counters()
            its_reaches = np.ones(its_heavy.keys.size, np.int64)
            its_reaches[places[part.wide]] = part.reaches
            heavies.append(its_heavy)
            all_reaches.append(its_reaches)
        heavy, reaches = largest_together(heavies, all_reaches)
        heavy.counts[:] /= len(parts)
        merged = _with_keys(copy_state(fresh), heavy, reaches)._replace(
            owners=first.owners.copy(),
            costs=first.costs.copy(),
            levels=unordered_mean([part.levels for part in parts]),
            handicaps=unordered_mean([part.handicaps for part in parts]),
            watched=_watched_together(parts, heavy),
            numbers=first.numbers.copy(),
            counters=first.counters.copy(),
        )
        numbers, counters = merged.numbers[0], merged.counters[0]
        numbers["level"] = unordered_mean([part.numbers["level"] for part in parts])[0]
        numbers["weight"] = 0.0
        numbers["old_weight"] = unordered_mean([_faded(part)[0] for part in parts])
        numbers["old_records"] = unordered_mean([_faded(part)[1] for part in parts])
        watched = [part.numbers[0]["watched"] / part.counted.unit[0] for part in parts]
        numbers["watched"] = unordered_mean(watched)
        firsts = {float(part.numbers[0]["first"]) for part in parts} - {0.0}
        numbers["first"] = min(firsts, default=0.0)
        since = sum(_since_sweep(part) for part in parts) // len(parts)
        left = [int(part.counters[0]["look_at"] - part.counters[0]["records"]) for part in parts]
        varies = len(firsts) > 1 or any(part.counters[0]["varies"] for part in parts)
        counters["varies"] = int(varies)
        counters["known"] = since
        counters["steps"] = counters["awaiting"] = 0
        n_records = max(int(part.counters[0]["records"]) for part in parts)
        _begin_block(merged, n_records, since, sum(left) // len(left))
        prepare(merged)
        # If merges are more frequent than blocks, no source ever reaches the `notice` of its loop.
        if merged.counters[0]["records"] >= merged.counters[0]["look_at"]:
            notice(merged)
            # Corrected counts may change the order of the keys in their buckets.
            return self.merge_condensed([self.condense(merged)], fresh)
        return merged


def _with_keys(state: CascadeState, heavy: HeavyKeys, reaches: Ints) -> CascadeState:
    """Return the state with other counted keys and their reaches; `prepare` does the rest."""
    rows = _rows(heavy.keys.size, state.levels.size)
    changed = state._replace(heavy=heavy, marks=np.zeros_like(state.marks), **rows)
    changed.cursors["reach"][: reaches.size] = reaches
    return changed


def _begin_block(state: CascadeState, n_records: int, since: int, left: int) -> None:
    """Begin a block, `since` records after the last sweep, and `left` before the next look.

    The scale is set from the faded records. The block is new because each source has put different
    keys aside.
    """
    numbers, counters = state.numbers[0], state.counters[0]
    for scratch in (state.hashes, state.starts, state.aside, state.aside_weights):
        scratch[:] = 0
    n_records += -n_records % BLOCK
    counters["records"] = n_records
    counters["sweep_at"] = n_records + counters["epoch"] - since
    counters["look_at"] = n_records + left
    weight, records = _faded(state)
    if weight > 0.0 and records > 0.0:  # a damaged file may have weight without records
        numbers["scale"] = weight / records
        numbers["heavy"] = weight / state.levels.size / HEAVY_PARTS


def _since_sweep(part: CascadeState | CondensedCascade) -> int:
    """Count the records of the present epoch so far."""
    counters = part.counters[0]
    return int(counters["records"] - (counters["sweep_at"] - counters["epoch"]))


def _faded(part: CascadeState | CondensedCascade) -> tuple[float, float]:
    """Return the faded weight and number of all records of a source, in today's records."""
    n_new = _since_sweep(part) - part.counters[0]["known"]
    weight = part.numbers[0]["old_weight"] + part.numbers[0]["weight"]
    return float(weight), float(part.numbers[0]["old_records"] + n_new)


def _rows(n_rows: int, n_workers: int) -> dict[str, Any]:
    """Return the fields of keys that use one worker each: no worker is listed for them yet."""
    cursors = np.zeros(n_rows, CURSORS)
    cursors["reach"] = 1
    homes = np.arange(n_workers, dtype=np.int32)
    return {"cursors": cursors, "waiting": np.append(np.zeros(n_rows * WAITING, np.int32), homes)}


def _watched_together(parts: Sequence[CondensedCascade], heavy: HeavyKeys) -> Floats:
    """Return the mean of what all sources watch, at the places where `heavy` has their keys."""
    amounts = []
    for part in parts:
        its_watched = part.counted.counts.copy()
        its_watched[part.recent] = part.watched
        amounts.append(its_watched / part.counted.unit[0])
    all_keys, all_amounts = np.concatenate([p.counted.keys for p in parts]), np.concatenate(amounts)
    order = np.lexsort((all_amounts, all_keys))  # so that the order of the sources does not matter
    found, starts = np.unique(all_keys[order], return_index=True)
    means = np.add.reduceat(all_amounts[order], starts) / len(parts)
    watched = np.zeros(heavy.keys.size)
    places = np.flatnonzero(heavy.counts > 0.0)
    watched[places] = means[np.searchsorted(found, heavy.keys[places])]
    return watched
