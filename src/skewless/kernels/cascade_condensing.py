"""What a merge needs to know of a source of Cascade: a twelfth of its state, and less.

Left out is what `prepare` makes from the rest (the workers that wait, homes, strides, grades,
spots), the scratch of a block, and empty places. No counted key is left out for being light: a key
that gets a few records per batch becomes heavy only because its count outlives the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import Floats, Ints, Keys, SmallInts, Workers
from skewless.kernels.cascade_state import CURSORS, REACH, CascadeState
from skewless.kernels.heavy_keys import PLACES, HeavyKeys, n_places


class CondensedCascade(NamedTuple):
    """The counted keys in the order of their buckets, and what is as in `CascadeState`."""

    owners: Workers
    levels: Floats
    handicaps: Floats
    costs: Floats
    filled: NDArray[np.uint8]  # counted keys of each bucket
    keys: Keys
    counts: Floats
    unit: Floats
    wide: SmallInts  # which of the keys use more than one worker
    reaches: SmallInts  # and how many
    numbers: Floats
    counters: Ints


def condense(state: CascadeState) -> CondensedCascade:
    """Return what a merge needs of `state`."""
    size = n_places(state.heavy)
    used = np.flatnonzero(state.heavy.counts[:size] > 0.0)
    reaches = state.cursors[REACH::CURSORS][used]
    wide = np.flatnonzero(reaches > 1)
    return CondensedCascade(
        owners=state.owners.copy(),
        levels=state.levels.copy(),
        handicaps=state.handicaps.copy(),
        costs=state.costs.copy(),
        filled=np.bincount(used // PLACES, minlength=size // PLACES).astype(np.uint8),
        keys=state.heavy.keys[used],
        counts=state.heavy.counts[used],
        unit=state.heavy.unit.copy(),
        wide=wide.astype(np.int32),
        reaches=reaches[wide],
        numbers=state.numbers.copy(),
        counters=state.counters.copy(),
    )


def counted_keys(parts: Sequence[CondensedCascade]) -> tuple[list[HeavyKeys], list[Ints]]:
    """Return the counters of all sources, and how many workers each of their keys uses."""
    heavies, reaches = [], []
    for part in parts:
        # Keys fill the places of their bucket from the first on.
        begins = np.cumsum(part.filled, dtype=np.int64) - part.filled
        buckets = np.repeat(np.arange(part.filled.size), part.filled)
        places = buckets * PLACES + np.arange(part.keys.size) - begins[buckets]
        n_all = (part.filled.size + 1) * PLACES
        heavy = HeavyKeys(np.zeros(n_all, np.uint64), np.zeros(n_all), part.unit)
        heavy.keys[places] = part.keys
        heavy.counts[places] = part.counts
        reach = np.ones(n_all, np.int64)
        reach[places[part.wide]] = part.reaches
        heavies.append(heavy)
        reaches.append(reach)
    return heavies, reaches


def require_sound(part: CondensedCascade, fresh: CascadeState) -> None:
    """Raise ValueError unless `part` can come from a state like `fresh`."""
    n_workers, n_keys = fresh.levels.size, part.keys.size
    sizes = {
        "owners": fresh.owners.size,
        "levels": n_workers,
        "handicaps": n_workers,
        "costs": n_workers,
        "filled": n_places(fresh.heavy) // PLACES,
        "keys": n_keys,
        "counts": n_keys,
        "unit": 1,
        "wide": part.wide.size,
        "reaches": part.wide.size,
        "numbers": fresh.numbers.size,
        "counters": fresh.counters.size,
    }
    for name, size in sizes.items():
        if getattr(part, name).shape != (size,):
            raise ValueError(f"{name} of a condensed state must be {size} numbers")
    within: dict[str, tuple[NDArray[Any], int, int]] = {
        "owners": (part.owners, 0, n_workers - 1),
        "filled": (part.filled, 0, PLACES),
        "wide": (part.wide, 0, n_keys - 1),
        "reaches": (part.reaches, 1, n_workers),
    }
    for name, (values, least, most) in within.items():
        if values.size and not least <= int(values.min()) <= int(values.max()) <= most:
            raise ValueError(f"{name} of a condensed state must be within {least} … {most}")
    if int(part.filled.sum(dtype=np.int64)) != n_keys:
        raise ValueError("filled of a condensed state must add up to the number of its keys")
