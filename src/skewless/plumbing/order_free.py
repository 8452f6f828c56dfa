"""Sums and means of arrays that do not depend on their order, to the last bit.

A sum of floats depends on the order of its terms. Reports of sources come in any order, and all
tasks must make the same plan from them. So the terms are sorted first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from skewless.arrays import Floats


def unordered_sum(rows: ArrayLike) -> Floats:
    """Return the sum over the first axis.

    >>> float(unordered_sum([0.1, 0.2, 0.3])) == float(unordered_sum([0.3, 0.2, 0.1]))
    True
    """
    total: Floats = np.sort(np.asarray(rows, np.float64), axis=0).sum(axis=0)
    return total


def unordered_mean(rows: Sequence[ArrayLike]) -> Floats:
    """Return the mean over the first axis; where all rows are equal, it is exactly that value.

    >>> float(unordered_mean([0.1, 0.1, 0.1]))
    0.1
    """
    found = np.asarray(rows, np.float64)
    agreed: Floats = np.where(
        (found == found[0]).all(axis=0), found[0], unordered_sum(found) / found.shape[0]
    )
    return agreed
