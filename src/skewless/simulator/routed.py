"""Records that have a worker and wait at their sources."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import Floats, Ints, Workers
from skewless.simulator.queueing import Batch, Parked


class Routed(NamedTuple):
    """Some routed records, in the order of the stream."""

    workers: Workers
    costs: Floats  # seconds on a worker of capacity 1
    windows: Ints
    sources: Ints
    until: Floats  # before which it may not leave its source


def no_routed() -> Routed:
    """Return no records."""
    none: Ints = np.empty(0, np.int64)
    return Routed(np.empty(0, np.int32), np.empty(0), none, none, np.empty(0))


def by_source(before: Batch, new: Routed) -> Batch:
    """Return what is left of a batch, and new records behind it, source by source."""
    n_sources = before.head.size
    order = np.argsort(new.sources, kind="stable")
    counts = np.bincount(new.sources, minlength=n_sources)
    ends = np.cumsum(counts)
    columns: dict[str, Any] = {}
    for name in ("workers", "costs", "windows", "until"):
        old, more = getattr(before, name), getattr(new, name)[order]
        parts = []
        for source in range(n_sources):
            parts.append(old[before.head[source] : before.end[source]])
            parts.append(more[ends[source] - counts[source] : ends[source]])
        columns[name] = np.concatenate(parts)
    lengths = before.end - before.head + counts
    end = np.cumsum(lengths)
    return Batch(**columns, head=end - lengths, end=end)


def no_batch(n_sources: int) -> Batch:
    """Return a batch without records."""
    none = no_routed()
    zeros: Ints = np.zeros(n_sources, np.int64)
    return Batch(none.workers, none.costs, none.windows, none.until, zeros, zeros.copy())


def room_to_park(before: Parked, batch: Batch) -> Parked:
    """Return what is parked, with room for all records of a batch that may have to wait."""
    size = int(before.size[0])
    room = size + int((batch.until > 0).sum())
    if room <= before.until.size:
        return before

    def longer(column: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([column[:size], np.zeros(room - size, column.dtype)])

    return Parked(
        until=longer(before.until),
        workers=longer(before.workers),
        costs=longer(before.costs),
        windows=longer(before.windows),
        born=longer(before.born),
        size=before.size,
    )


def nothing_parked() -> Parked:
    """Return no records."""
    none = no_routed()
    empty = np.empty(0)
    return Parked(empty, none.workers, none.costs, none.windows, empty, np.zeros(1, np.int64))
