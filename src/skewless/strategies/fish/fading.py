"""Which keys are hot of late: a SpaceSaving summary whose counts fade after every epoch.

An epoch is a fixed number of records. After it, all counts are multiplied by α, so that what
was frequent long ago weighs little. A key is hot when its count exceeds θ times the weight of a
long stream, epoch / (1 − α). The faded total would be the wrong measure: right after a fading it
is small, and a single record would make any key hot.

References
----------
FISH, Alg. 1 (section 4.1.1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless._jit import kernel
from skewless.arrays import F64, I64, Floats, Ints
from skewless.kernels.space_saving import SpaceSaving, decay, list_shares, space_saving
from skewless.sound import MOST_WEIGHT, require_same, require_within

# Positions in `settings`.
THETA = 0
ALPHA = 1
WEIGHT = 2  # records that a frequency is relative to, at least


class Fading(NamedTuple):
    """Counts are `summary.counts`, in units of `summary.unit`; so is `top`."""

    summary: SpaceSaving
    top: Floats  # [the largest count]
    n_in_epoch: Ints  # [records of the current epoch]
    epoch: Ints  # [records of an epoch]
    settings: Floats

    def check(self, fresh: Fading) -> None:
        """Refuse another epoch, and a count that is no number."""
        require_same("epoch", self.epoch, fresh.epoch)
        require_same("settings", self.settings, fresh.settings)
        require_within("n_in_epoch", self.n_in_epoch, 0, int(self.epoch[0]))
        require_within("top", self.top, 0, MOST_WEIGHT)


def fading(capacity: int, epoch: int, alpha: float, theta: float) -> Fading:
    """Return a summary of up to `capacity` keys that has seen nothing; α = 1 fades nothing."""
    weight = epoch / (1.0 - alpha) if alpha < 1 else epoch
    return Fading(
        summary=space_saving(capacity),
        top=np.zeros(1),
        n_in_epoch=np.zeros(1, np.int64),
        epoch=np.array([epoch]),
        settings=np.array([theta, alpha, weight]),
    )


@kernel
def hot_above(fading: Fading) -> F64:
    """Return the count above which a key is hot."""
    weight = fading.settings[WEIGHT] * fading.summary.unit[0]
    return fading.settings[THETA] * max(fading.summary.total[0], weight)


@kernel
def list_hot(fading: Fading, shares: Floats) -> I64:
    """Fill `shares` with the hot keys' shares of all records, in any order; return how many.

    It also finds `top` again.
    """
    summary = fading.summary
    top = 0.0
    for entry in range(summary.size[0]):
        top = max(top, summary.counts[entry])
    fading.top[0] = top
    return list_shares(summary, hot_above(fading), summary.total[0], shares)


@kernel
def fade(fading: Fading) -> None:
    """Begin the next epoch (Alg. 1, l. 5–7 and 23–26)."""
    unit = fading.summary.unit[0] / fading.settings[ALPHA]
    decay(fading.summary, fading.settings[ALPHA])
    if fading.summary.unit[0] < unit:  # all counts were brought back to today's unit
        fading.top[0] /= unit
    fading.n_in_epoch[0] = 0
