"""Records that wait at their sources for the state of their keys, or to be sent once more."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import F64, I32, I64, U64, Floats, Ints, Keys, SmallInts
from skewless.plumbing.compiling import kernel


class Parked(NamedTuple):
    """A heap by the times at which the records may leave."""

    until: Floats
    workers: SmallInts
    costs: Floats
    windows: Ints
    born: Floats  # when they would have left
    keys: Keys
    sources: SmallInts
    size: Ints  # [1]


def nothing_parked() -> Parked:
    """Return no records."""
    return Parked(
        until=np.empty(0),
        workers=np.empty(0, np.int32),
        costs=np.empty(0),
        windows=np.empty(0, np.int64),
        born=np.empty(0),
        keys=np.empty(0, np.uint64),
        sources=np.empty(0, np.int32),
        size=np.zeros(1, np.int64),
    )


def with_room(before: Parked, n_more: int) -> Parked:
    """Return the parked records, with room for this many more."""
    size = int(before.size[0])
    room = size + n_more
    if room <= before.until.size:
        return before

    def longer(column: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([column[:size], np.zeros(room - size, column.dtype)])

    columns: dict[str, Any] = {
        name: longer(getattr(before, name)) for name in before._fields if name != "size"
    }
    return before._replace(**columns)


@kernel
def _swap(parked: Parked, i: I64, j: I64) -> None:
    """Exchange two records of the heap."""
    parked.until[i], parked.until[j] = parked.until[j], parked.until[i]
    parked.workers[i], parked.workers[j] = parked.workers[j], parked.workers[i]
    parked.costs[i], parked.costs[j] = parked.costs[j], parked.costs[i]
    parked.windows[i], parked.windows[j] = parked.windows[j], parked.windows[i]
    parked.born[i], parked.born[j] = parked.born[j], parked.born[i]
    parked.keys[i], parked.keys[j] = parked.keys[j], parked.keys[i]
    parked.sources[i], parked.sources[j] = parked.sources[j], parked.sources[i]


@kernel
def park(
    parked: Parked,
    until: F64,
    worker: I32,
    cost: F64,
    window: I64,
    born: F64,
    key: U64,
    source: I32,
) -> None:
    """Put a record aside until a time."""
    i = parked.size[0]
    parked.until[i] = until
    parked.workers[i] = worker
    parked.costs[i] = cost
    parked.windows[i] = window
    parked.born[i] = born
    parked.keys[i] = key
    parked.sources[i] = source
    parked.size[0] = i + 1
    while i > 0 and parked.until[(i - 1) >> 1] > parked.until[i]:
        _swap(parked, i, (i - 1) >> 1)
        i = (i - 1) >> 1


@kernel
def drop_first(parked: Parked) -> None:
    """Take the record that may leave first out of the heap."""
    n = parked.size[0] - 1
    _swap(parked, 0, n)
    parked.size[0] = n
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            return
        if child + 1 < n and parked.until[child + 1] < parked.until[child]:
            child += 1
        if parked.until[child] >= parked.until[i]:
            return
        _swap(parked, i, child)
        i = child
