"""What a merge needs of a state of Cascade: an eighth of the state, or less.

A condensed state leaves out what `prepare` computes from the rest (listed workers, homes, strides,
grades, spots), the scratch of a block, and empty places. It keeps light counted keys: a key that
gets a few records per batch becomes heavy only because its count outlives the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import Floats, Ints, Keys, Rows, SmallInts, Workers
from skewless.state import require_same, require_that, require_within
from skewless.strategies.cascade.heavy_keys import PLACES, HeavyKeys, n_places
from skewless.strategies.cascade.state import CascadeState, check_numbers


class CondensedCascade(NamedTuple):
    """The counted keys in the order of their buckets; other fields are as in `CascadeState`."""

    owners: Workers
    levels: Floats
    handicaps: Floats
    costs: Floats
    filled: NDArray[np.uint8]  # counted keys of each bucket
    keys: Keys
    counts: Floats
    unit: Floats
    recent: SmallInts  # which of the keys were counted since the last look
    watched: Floats  # and what their counts were then; the other counts are the same
    wide: SmallInts  # which of the keys use more than one worker
    reaches: SmallInts  # and how many
    numbers: Rows
    counters: Rows

    @property
    def grows(self) -> tuple[str, ...]:
        """Names of the fields whose length depends on the number of counted keys."""
        return ("keys", "counts", "recent", "watched", "wide", "reaches")

    def check(self, fresh: CondensedCascade) -> None:
        """Refuse workers and places that do not exist, and values that are out of range."""
        n_keys, n_workers = self.keys.size, self.levels.size
        for name in ("owners", "costs"):
            require_same(name, getattr(self, name), getattr(fresh, name))
        require_that(
            self.reaches.size == self.wide.size, "wide and reaches must be of equal length"
        )
        require_that(
            self.recent.size == self.watched.size, "recent and watched must be of equal length"
        )
        require_within("recent", self.recent, 0, n_keys - 1)
        check_counted(self, fresh)
        require_within("wide", self.wide, 0, n_keys - 1)
        require_within("reaches", self.reaches, 1, n_workers)
        check_numbers(self, fresh)


def check_counted(part: Any, fresh: Any) -> None:
    """Refuse counters of a condensed state that do not fit into their buckets."""
    n_keys = part.keys.size
    require_that(part.counts.size == n_keys, f"counts must be {n_keys}, one per key")
    require_within("filled", part.filled, 0, PLACES)
    total = int(part.filled.sum(dtype=np.int64))
    require_that(total == n_keys, f"filled must add up to the number of keys, {n_keys}")
    HeavyKeys(part.keys, part.counts, part.unit).check(fresh)


def counted(heavy: HeavyKeys) -> tuple[NDArray[np.uint8], Ints]:
    """Return how many keys of each bucket are counted, and the places of all of them."""
    size = n_places(heavy)
    used = np.flatnonzero(heavy.counts[:size] > 0.0)
    filled = np.bincount(used // PLACES, minlength=size // PLACES).astype(np.uint8)
    return filled, used


def counters_of(
    filled: NDArray[np.uint8], keys: Keys, counts: Floats, unit: Floats
) -> tuple[HeavyKeys, Ints]:
    """Return the counters of keys in the order of their buckets, and the place of each key."""
    # Keys fill the places of their bucket from the first on.
    begins = np.cumsum(filled, dtype=np.int64) - filled
    buckets = np.repeat(np.arange(filled.size), filled)
    places = buckets * PLACES + np.arange(keys.size) - begins[buckets]
    n_all = (filled.size + 1) * PLACES
    heavy = HeavyKeys(np.zeros(n_all, np.uint64), np.zeros(n_all), unit)
    heavy.keys[places] = keys
    heavy.counts[places] = counts
    return heavy, places


def condense(state: CascadeState) -> CondensedCascade:
    """Copy the fields of `state` that a merge needs, and only the counted keys."""
    filled, used = counted(state.heavy)
    reaches = state.cursors["reach"][used]
    wide = np.flatnonzero(reaches > 1)
    counts, watched = state.heavy.counts[used], state.watched[used]
    recent = np.flatnonzero(watched != counts)
    return CondensedCascade(
        owners=state.owners.copy(),
        levels=state.levels.copy(),
        handicaps=state.handicaps.copy(),
        costs=state.costs.copy(),
        filled=filled,
        keys=state.heavy.keys[used],
        counts=counts,
        unit=state.heavy.unit.copy(),
        recent=recent.astype(np.int32),
        watched=watched[recent],
        wide=wide.astype(np.int32),
        reaches=reaches[wide],
        numbers=state.numbers.copy(),
        counters=state.counters.copy(),
    )


def counted_keys(parts: Sequence[CondensedCascade]) -> tuple[list[HeavyKeys], list[Ints]]:
    """Return the counters of all sources, and how many workers each of their keys uses."""
    heavies, reaches = [], []
    for part in parts:
        heavy, places = counters_of(part.filled, part.keys, part.counts, part.unit)
        reach = np.ones(heavy.keys.size, np.int64)
        reach[places[part.wide]] = part.reaches
        heavies.append(heavy)
        reaches.append(reach)
    return heavies, reaches


def watched_together(parts: Sequence[CondensedCascade], heavy: HeavyKeys) -> Floats:
    """Return the mean of what all sources watch, at the places where `heavy` has their keys."""
    watched = np.zeros(heavy.keys.size)
    keys = np.concatenate([part.keys for part in parts])
    amounts = np.concatenate([_watched(part) / part.unit[0] for part in parts])
    order = np.lexsort((amounts, keys))  # so that the order of the sources does not matter
    found, starts = np.unique(keys[order], return_index=True)
    if found.size:
        means = np.add.reduceat(amounts[order], starts) / len(parts)
        places = np.flatnonzero(heavy.counts > 0.0)
        watched[places] = means[np.searchsorted(found, heavy.keys[places])]
    return watched


def _watched(part: CondensedCascade) -> Floats:
    """Return the count of each key at the last look."""
    watched: Floats = part.counts.copy()
    watched[part.recent] = part.watched
    return watched
