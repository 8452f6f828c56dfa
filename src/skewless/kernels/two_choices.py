"""The power of two choices: a record goes to the lighter of two workers."""

from __future__ import annotations

import numpy as np

from skewless._jit import kernel
from skewless.arrays import I32, Ints


@kernel
def send_to_lighter(loads: Ints, first: I32, second: I32) -> I32:
    """Add 1 to the smaller of two loads, the first on a tie, and return whose it is.

    Both loads are written, one of them unchanged. So both addresses are known before the
    comparison is, and the processor need not hold back the next record's reads for fear that they
    meet this record's write: that makes it three times as fast as writing one of them.
    """
    take_second = np.int64(loads[second] < loads[first])
    loads[second] += take_second
    loads[first] += 1 - take_second
    return second if take_second else first
