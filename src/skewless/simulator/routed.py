"""Records that have a worker and wait at their sources."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import Floats, Ints, Keys, Workers
from skewless.simulator.queueing import Batch


class Routed(NamedTuple):
    """Some routed records, in the order of the stream."""

    keys: Keys
    workers: Workers
    costs: Floats  # seconds on a worker of capacity 1
    windows: Ints
    sources: Ints
    born: Floats  # when it was first ready to leave its source; negative: it has not been yet

    def part(self, which: NDArray[np.bool_]) -> Routed:
        """Return some of them."""
        return Routed._make(column[which] for column in self)


def no_routed() -> Routed:
    """Return no records."""
    none: Ints = np.empty(0, np.int64)
    return Routed(
        np.empty(0, np.uint64), np.empty(0, np.int32), np.empty(0), none, none, np.empty(0)
    )


def joined_routed(pieces: Sequence[Routed]) -> Routed:
    """Return these records one after the other."""
    return Routed._make(np.concatenate(columns) for columns in zip(*pieces, strict=True))


def by_source(before: Batch, new: Routed) -> Batch:
    """Return what is left of a batch, and new records behind it, source by source."""
    n_sources = before.head.size
    order = np.argsort(new.sources, kind="stable")
    counts = np.bincount(new.sources, minlength=n_sources)
    ends = np.cumsum(counts)
    columns: dict[str, Any] = {}
    for name in ("workers", "costs", "windows", "born"):
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
    return Batch(none.workers, none.costs, none.windows, none.born, zeros, zeros.copy())
