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
from skewless.state import MOST_WEIGHT, fixed, growing, require_that, require_within, within
from skewless.strategies.cascade.heavy_keys import LARGEST_UNIT, PLACES, HeavyKeys, n_places
from skewless.strategies.cascade.state import CascadeState, check_numbers


@within(0, PLACES, "filled")
@within(0, MOST_WEIGHT, "counts")
@within(1, LARGEST_UNIT, "unit")
class Counted(NamedTuple):
    """The counted keys, in the order of their buckets."""

    filled: NDArray[np.uint8]  # counted keys of each bucket
    keys: Keys
    counts: Floats
    unit: Floats

    def check(self, fresh: Counted) -> None:
        """Refuse counters that do not fit into their buckets."""
        n_keys = self.keys.size
        require_that(self.counts.size == n_keys, f"counts must be {n_keys}, one per key")
        total = int(self.filled.sum(dtype=np.int64))
        require_that(total == n_keys, f"filled must add up to the number of keys, {n_keys}")

    def counters(self) -> tuple[HeavyKeys, Ints]:
        """Return the counters of these keys, and the place of each."""
        # Keys fill the places of their bucket from the first on.
        begins = np.cumsum(self.filled, dtype=np.int64) - self.filled
        buckets = np.repeat(np.arange(self.filled.size), self.filled)
        places = buckets * PLACES + np.arange(self.keys.size) - begins[buckets]
        n_all = (self.filled.size + 1) * PLACES
        heavy = HeavyKeys(np.zeros(n_all, np.uint64), np.zeros(n_all), self.unit)
        heavy.keys[places] = self.keys
        heavy.counts[places] = self.counts
        return heavy, places


def counted(heavy: HeavyKeys) -> tuple[Counted, Ints]:
    """Return the counted keys, and their places."""
    size = n_places(heavy)
    used = np.flatnonzero(heavy.counts[:size] > 0.0)
    filled = np.bincount(used // PLACES, minlength=size // PLACES).astype(np.uint8)
    return Counted(filled, heavy.keys[used], heavy.counts[used], heavy.unit.copy()), used


@fixed("owners", "costs")
@growing("counted.keys", "counted.counts", "recent", "watched", "wide", "reaches")
class CondensedCascade(NamedTuple):
    """What is counted and how it is used; other fields are as in `CascadeState`."""

    owners: Workers
    levels: Floats
    handicaps: Floats
    costs: Floats
    counted: Counted
    recent: SmallInts  # which of the keys were counted since the last look
    watched: Floats  # and what their counts were then; the other counts are the same
    wide: SmallInts  # which of the keys use more than one worker
    reaches: SmallInts  # and how many
    numbers: Rows
    counters: Rows

    def check(self, fresh: CondensedCascade) -> None:
        """Refuse workers and places that do not exist, and values that are out of range."""
        n_keys, n_workers = self.counted.keys.size, self.levels.size
        for one, other in (("wide", "reaches"), ("recent", "watched")):
            same = getattr(self, one).size == getattr(self, other).size
            require_that(same, f"{one} and {other} must be of equal length")
        require_within("recent", self.recent, 0, n_keys - 1)
        require_within("wide", self.wide, 0, n_keys - 1)
        require_within("reaches", self.reaches, 1, n_workers)
        check_numbers(self, fresh)


def condense(state: CascadeState) -> CondensedCascade:
    """Copy the fields of `state` that a merge needs, and only the counted keys."""
    keys, used = counted(state.heavy)
    reaches = state.cursors["reach"][used]
    wide = np.flatnonzero(reaches > 1)
    watched = state.watched[used]
    recent = np.flatnonzero(watched != keys.counts)
    same = ("owners", "levels", "handicaps", "costs", "numbers", "counters")
    copies: dict[str, Any] = {name: getattr(state, name).copy() for name in same}
    return CondensedCascade(
        **copies,
        counted=keys,
        recent=recent.astype(np.int32),
        watched=watched[recent],
        wide=wide.astype(np.int32),
        reaches=reaches[wide],
    )


def counted_keys(parts: Sequence[CondensedCascade]) -> tuple[list[HeavyKeys], list[Ints]]:
    """Return the counters of all sources, and how many workers each of their keys uses."""
    heavies, reaches = [], []
    for part in parts:
        heavy, places = part.counted.counters()
        reach = np.ones(heavy.keys.size, np.int64)
        reach[places[part.wide]] = part.reaches
        heavies.append(heavy)
        reaches.append(reach)
    return heavies, reaches


def watched_together(parts: Sequence[CondensedCascade], heavy: HeavyKeys) -> Floats:
    """Return the mean of what all sources watch, at the places where `heavy` has their keys."""
    watched = np.zeros(heavy.keys.size)
    keys = np.concatenate([part.counted.keys for part in parts])
    amounts = np.concatenate([_watched(part) / part.counted.unit[0] for part in parts])
    order = np.lexsort((amounts, keys))  # so that the order of the sources does not matter
    found, starts = np.unique(keys[order], return_index=True)
    if found.size:
        means = np.add.reduceat(amounts[order], starts) / len(parts)
        places = np.flatnonzero(heavy.counts > 0.0)
        watched[places] = means[np.searchsorted(found, heavy.keys[places])]
    return watched


def _watched(part: CondensedCascade) -> Floats:
    """Return the count of each key at the last look."""
    watched: Floats = part.counted.counts.copy()
    watched[part.recent] = part.watched
    return watched
