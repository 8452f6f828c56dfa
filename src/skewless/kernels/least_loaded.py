"""The least loaded worker, lowest index on a tie.

Two ways find it without a scan over all workers. A cursor serves counts that only grow, in O(1)
amortised. A tournament tree serves loads that rise and fall by any amount, in O(log n) per change.
For rare searches, a scan is enough. The power of two choices looks at two workers only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays import F64, I32, I64, Floats, Ints, SmallInts
from skewless.plumbing.compiling import kernel
from skewless.state import MOST_COUNTED, require_within

FLOOR = 0
CURSOR = 1


@kernel
def first_least(loads: Floats | Ints) -> I64:
    """Return the first of the workers with the least load, by a scan over all of them."""
    best = 0
    for worker in range(1, loads.size):
        if loads[worker] < loads[best]:
            best = worker
    return best


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


def floor_cursor(counts: Ints) -> Ints:
    """Return the state of `least_count` over `counts`: FLOOR and CURSOR.

    >>> floor_cursor(np.array([5, 3, 3])).tolist()
    [3, 0]
    """
    return np.array([counts.min(), 0], np.int64)


def require_cursor(loads: Ints, floor: Ints) -> None:
    """Raise `Unsound` unless `floor` is a state of `least_count` over `loads`."""
    require_within("loads", loads, 0, MOST_COUNTED)
    require_within("floor", floor[[FLOOR]], 0, int(loads.min()))
    require_within("floor", floor[[CURSOR]], 0, loads.size - 1)


@kernel
def least_count(counts: Ints, state: Ints) -> I64:
    """Return the worker with the smallest of `counts`, which never decrease.

    The caller may raise any worker's count between two calls, not only the least one's.

    Why it is right: no count is below the floor, and no worker before the cursor is at the floor.
    Raising a count keeps both true, so the first worker at the floor, from the cursor on, is the
    least loaded one with the lowest index. When the cursor runs off the end, no worker is at
    the floor, and the floor may rise by one.

    Why it is O(1) amortised when records count 1: the floor is never above the smallest count,
    hence never above total/n. The cursor passes each of n workers once per value of the floor:
    at most n · (total/n + 1) = total + n steps in all, one per record and n more. As many again
    find the next floor; a scan over all workers finds it at once, however far away it is.
    """
    floor = state[FLOOR]
    cursor = state[CURSOR]
    while counts[cursor] > floor:
        cursor += 1
        if cursor == counts.size:
            cursor = 0
            floor = counts[first_least(counts)]
    state[FLOOR] = floor
    state[CURSOR] = cursor
    return cursor


class LoadTree(NamedTuple):
    """A tournament: each node holds the winner, the less loaded worker of the two below it.

    Node 1 is the root, the children of node i are 2i and 2i + 1, and the leaves are the workers
    in order, filled up with workers of infinite load to a power of two.
    """

    loads: Floats
    winners: SmallInts


def load_tree(loads: Floats) -> LoadTree:
    """Return the tree over `loads`, one per worker, none of them NaN.

    >>> tree = load_tree(np.array([2.0, 1.0, 1.0]))
    >>> int(least(tree))
    1
    >>> update(tree, 1, 1.5)
    >>> int(least(tree))
    2
    """
    if loads.size < 1 or np.isnan(loads).any():
        raise ValueError(f"load_tree: loads must be at least one number, none NaN, not {loads!r}")
    n_leaves = 1 << (loads.size - 1).bit_length()
    padded = np.full(n_leaves, np.inf)
    padded[: loads.size] = loads
    tree = LoadTree(padded, np.zeros(2 * n_leaves, np.int32))
    tree.winners[n_leaves:] = np.arange(n_leaves)
    for node in range(n_leaves - 1, 0, -1):
        left, right = tree.winners[2 * node], tree.winners[2 * node + 1]
        tree.winners[node] = left if padded[left] <= padded[right] else right
    return tree


@kernel
def update(tree: LoadTree, worker: I64, load: F64) -> None:
    """Set the load of `worker`; read it as `tree.loads[worker]`."""
    tree.loads[worker] = load
    node = (tree.loads.size + worker) >> 1
    while node > 0:
        left = tree.winners[2 * node]
        right = tree.winners[2 * node + 1]
        # The left half has the lower indices, so it wins a tie.
        winner = left if tree.loads[left] <= tree.loads[right] else right
        if winner == tree.winners[node] and winner != worker:
            return  # same winner, same load: nothing changes further up
        tree.winners[node] = winner
        node >>= 1


@kernel
def least(tree: LoadTree) -> I32:
    """Return the least loaded worker, the lowest index on a tie."""
    return tree.winners[1]
