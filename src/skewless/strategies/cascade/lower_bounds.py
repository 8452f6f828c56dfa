"""The least loaded worker where loads only rise: a tree of lower bounds of the levels.

It costs nothing per change of a level and O(log n) amortised per search. Almost all records change
a level without a search, so a tree that every change updates would cost more.
"""

from __future__ import annotations

import numpy as np

from skewless.arrays import I64, Floats
from skewless.kernels.least_loaded import first_least
from skewless.plumbing.compiling import kernel


def lower_bounds(loads: Floats) -> Floats:
    """Return the tree of lower bounds over `loads`: see `least_of_rising`.

    >>> lower_bounds(np.array([2.0, 1.0, 3.0])).tolist()
    [0.0, 1.0, 1.0, 3.0, 2.0, 1.0, 3.0, inf]
    """
    bounds = np.zeros(2 << (loads.size - 1).bit_length())
    renew_bounds(bounds, loads)
    return bounds


@kernel
def renew_bounds(bounds: Floats, loads: Floats) -> None:
    """Make all bounds exact: needed whenever a load may have fallen."""
    n_leaves = bounds.size // 2
    for worker in range(n_leaves):
        bounds[n_leaves + worker] = loads[worker] if worker < loads.size else np.inf
    for node in range(n_leaves - 1, 0, -1):
        bounds[node] = min(bounds[2 * node], bounds[2 * node + 1])


@kernel
def least_of_rising(bounds: Floats, loads: Floats) -> I64:
    """Return the least loaded worker, the lowest index on a tie, where loads have only risen.

    Node 1 is the root, the children of node i are 2i and 2i + 1, and the leaves are the workers.
    A bound is what the least load below a node was at some time. It is looked at only where the
    least load may be, and corrected where it is out of date.

    Why it is O(log n) amortised: a descent that does not end with the answer ends at a worker whose
    load has risen since its bound was set, and sets it. So there are no more such descents than
    there were changes of loads.
    """
    n_leaves = bounds.size // 2
    for _ in range(loads.size + 1):  # each worker can be out of date once
        node = 1
        while node < n_leaves:
            node = 2 * node
            # The left half has the lower indices, so it wins a tie.
            node = node + 1 if bounds[node + 1] < bounds[node] else node
        worker = node - n_leaves
        if worker >= loads.size:
            break
        if loads[worker] <= bounds[node]:
            return worker
        bounds[node] = loads[worker]
        while node > 1:
            node = node // 2
            bounds[node] = min(bounds[2 * node], bounds[2 * node + 1])
    return first_least(loads)
