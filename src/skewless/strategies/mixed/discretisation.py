"""Few values instead of many, such that sums stay right: half linear, half exponential (HLHE).

With degree R = 2^r the values are the multiples of R and, below R, the powers of two. Each number
takes the next value below or above it, whichever brings the sum of all errors so far closer to 0.
"""

from __future__ import annotations

import numpy as np

from skewless.arrays import F64, Floats, SmallInts, Workers
from skewless.plumbing.compiling import kernel
from skewless.strategies.mixed.ordering import descending_order

_WIDEST = 2.0**31  # the largest number in units of the smallest; below that, numbers are as 0


@kernel
def value_below(x: F64, degree: F64) -> F64:
    """Return the largest value not above `x`: 0 when `x` is below 1."""
    if x >= degree:
        return np.floor(x / degree) * degree
    if x < 1.0:
        return 0.0
    power = 1.0
    while 2.0 * power <= x:
        power *= 2.0
    return power


@kernel
def _discretise(
    xs: Floats,
    order: SmallInts,
    parts: Workers,
    degree: F64,
    tops: Floats,
    errors: Floats,
    out: Floats,
) -> None:
    for i in order:
        x = xs[i]
        part = parts[i]
        if x <= 0.0:
            out[i] = 0.0
            continue
        below = value_below(x, degree)
        if tops[part] == 0.0:  # y_1: the first number of a part is its largest
            tops[part] = below if x >= degree else max(0.5 * degree, 1.0)
        if x >= tops[part]:
            out[i] = tops[part]
        else:
            above = below + degree if x >= degree else max(2.0 * below, 1.0)
            low = errors[part] + (x - below)
            high = errors[part] + (x - above)
            out[i] = above if abs(high) < abs(low) else below
        errors[part] += x - out[i]


def discretise(
    values: Floats, degree: int, parts: SmallInts | None = None, order: SmallInts | None = None
) -> tuple[Floats, float]:
    """Return a few whole numbers for `values` (0 or more), and the unit that they count.

    Parameters
    ----------
    degree
        R: the distance of large values; a power of two.
    parts
        Errors cancel within each part, numbered from 0; None: all is one part.
    order
        The places of `values` from the largest to the smallest, where that is known; those of
        value 0 may be anywhere.

    The example of fig. 6 of Mixed: the sum is kept.

    >>> costs = np.array([8.0, 6, 3, 2, 2, 1, 1, 1, 1, 1])
    >>> discretise(costs, 4)[0].astype(int).tolist()
    [8, 4, 4, 2, 2, 2, 1, 1, 1, 1]
    """
    if parts is None:
        parts = np.zeros(values.size, np.int32)
    if not (values > 0).any():
        return np.zeros(values.size), 1.0
    unit = max(float(values[values > 0].min()), float(values.max()) / _WIDEST)
    out = np.empty(values.size)
    n_parts = int(parts.max()) + 1
    _discretise(
        values / unit,
        descending_order(values) if order is None else order,
        parts,
        float(degree),
        np.zeros(n_parts),
        np.zeros(n_parts),
        out,
    )
    return out, unit
