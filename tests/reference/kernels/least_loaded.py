"""The least loaded worker by looking at all of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def least_loaded(loads: NDArray[np.int64] | NDArray[np.float64]) -> int:
    return int(np.argmin(loads))  # the first of equals
