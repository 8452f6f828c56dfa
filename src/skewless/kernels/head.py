"""The head of the key distribution: which keys are hot, by SpaceSaving and a threshold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays import U64, Floats
from skewless.kernels.space_saving import SpaceSaving, offer, space_saving
from skewless.plumbing.compiling import kernel
from skewless.state import require_same


class Head(NamedTuple):
    """A summary of this source's keys, and the share of its records that makes a key hot."""

    summary: SpaceSaving
    threshold: Floats

    def check(self, fresh: Head) -> None:
        """Refuse another threshold."""
        require_same("threshold", self.threshold, fresh.threshold)


def head(n_workers: int, hot_factor: float, capacity: int | None) -> Head:
    """Return a head that calls a key hot above `hot_factor` / n of the records.

    A summary of c keys overestimates by up to 1/c of the records. So it needs more places than
    there can be hot keys, n / `hot_factor`; with fewer, cold keys pass for hot ones.
    """
    places = capacity if capacity is not None else int(np.ceil(n_workers / hot_factor))
    return Head(space_saving(places), np.array([hot_factor / n_workers]))


@kernel
def is_hot(head: Head, key: U64) -> bool:
    """Count a record of `key`, then return whether the key is hot."""
    estimate = offer(head.summary, key, 1.0)
    return bool(estimate > head.threshold[0] * head.summary.total[0])
