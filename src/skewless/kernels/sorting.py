"""Sorting in place, since a kernel cannot allocate and numpy's sort does."""

from __future__ import annotations

from skewless.arrays import I64, Floats
from skewless.plumbing.compiling import kernel


@kernel
def sift(values: Floats, root: I64, n: I64) -> None:
    """Restore the min-heap below `root`."""
    value = values[root]
    child = 2 * root + 1
    while child < n:
        if child + 1 < n and values[child + 1] < values[child]:
            child += 1
        if values[child] >= value:
            break
        values[root] = values[child]
        root = child
        child = 2 * root + 1
    values[root] = value


@kernel
def sort_descending(values: Floats, n: I64) -> None:
    """Sort `values[:n]`, the largest first (heapsort)."""
    for root in range(n // 2 - 1, -1, -1):
        sift(values, root, n)
    for end in range(n - 1, 0, -1):
        values[0], values[end] = values[end], values[0]
        sift(values, 0, end)
