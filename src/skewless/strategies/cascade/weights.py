"""What a record weighs."""

from __future__ import annotations

from skewless.arrays import F64, I64, Floats
from skewless.plumbing.compiling import kernel


@kernel
def weight_of(weights: Floats | None, i: I64) -> F64:
    """Return the weight of record i; without weights, 1, which is a constant to the compiler."""
    if weights is None:
        return 1.0
    return weights[i]
