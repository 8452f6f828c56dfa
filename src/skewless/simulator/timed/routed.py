"""Records that have a worker and wait at their sources."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import Floats, Ints, Keys, Workers
from skewless.simulator.dealing import refill, shares, stretches
from skewless.simulator.timed.queueing import Batch


class Routed(NamedTuple):
    """Some routed records, in the order of the stream."""

    workers: Workers
    costs: Floats  # seconds on a worker of capacity 1
    windows: Ints
    until: Floats  # before which it may not leave its source
    keys: Keys  # empty unless a worker will fail


def no_batch(n_sources: int) -> Batch:
    """Return a batch without records."""
    zeros: Ints = np.zeros(n_sources, np.int64)
    return Batch(
        workers=np.empty(0, np.int32),
        costs=np.empty(0),
        windows=np.empty(0, np.int64),
        until=np.empty(0),
        keys=np.empty(0, np.uint64),
        head=zeros,
        end=zeros.copy(),
    )


def by_source(before: Batch, new: Routed, first: int) -> Batch:
    """Build a batch of the records that are left and the new ones behind them, source by source.

    The first of the new records belongs to the source `first`, and so on in turn.
    """
    lengths = before.end - before.head + shares(new.workers.size, first, before.head.size)
    begins, size = stretches(lengths)

    def together(old: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
        if not values.size:
            return values  # a column that is not needed
        out = np.zeros(size, values.dtype)
        refill(old, before.head, before.end, values, first, begins, out)
        return out

    columns: dict[str, Any] = {
        name: together(getattr(before, name), getattr(new, name)) for name in new._fields
    }
    return Batch(**columns, head=begins.copy(), end=begins + lengths)
