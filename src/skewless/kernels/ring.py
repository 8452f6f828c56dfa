"""A consistent-hash ring: workers own arcs of the hash space, by many points each.

The position of a point depends only on the seed, its worker and its number. So a worker that joins,
leaves or changes capacity moves only the arcs next to its own points. With equal capacities the
share of a worker deviates by about 1/√(points) of it.

Points are sorted, and an index by the leading bits of the hash says where to begin, so a lookup
reads one or two points, however many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from skewless.arrays import I32, I64, U64, Floats, Ints, SmallInts, Words, Workers
from skewless.kernels.hashing import draw, seed_array
from skewless.plumbing.compiling import kernel
from skewless.state import MOST_COUNTED, fixed, require_within, within


@fixed("positions", "workers", "first", "shift", "unit")
@within(0, MOST_COUNTED, "stamp")
class Ring(NamedTuple):
    """Points in ascending order; a point owns the hashes after the point before it, up to itself.

    `seen` and `stamp` are scratch space of `candidates`; no result depends on what they hold.
    """

    positions: Words  # one more than there are points: the last one ends every search
    workers: Workers  # of each point; the last one is the first again
    first: SmallInts  # by leading bits of a hash: the first point that is not before them
    shift: Words  # [1] leaves the leading bits of a hash
    unit: Floats  # [1] the capacity that is worth `virtual_nodes` points
    seen: Ints  # per worker: the stamp of the last walk that met it
    stamp: Ints  # [1] number of the current walk

    def check(self, fresh: Ring) -> None:
        """Refuse a walk that would never meet some worker."""
        require_within("seen", self.seen, 0, int(self.stamp[0]))


def ring(
    n_workers: int,
    seed: int,
    virtual_nodes: int = 128,
    capacities: Sequence[float] | Floats | None = None,
    unit: float | None = None,
) -> Ring:
    """Return the ring of workers 0 … n_workers − 1.

    Parameters
    ----------
    virtual_nodes
        Points of a worker of capacity `unit`. More points, more even shares, more memory.
    capacities
        Relative speeds; None: all equal. Worker w gets virtual_nodes · capacities[w] / unit
        points, rounded, and at least one. A worker of capacity 0 has left and gets none.
    unit
        The capacity that is worth `virtual_nodes` points; None: the mean of those above 0. When a
        worker joins, leaves or changes capacity, pass the `unit` of the ring before: a new mean
        would change the points of all workers.

    >>> small = ring(4, seed=7, virtual_nodes=4, capacities=[1.0, 1.0, 0.0, 2.0])
    >>> np.bincount(small.workers[:-1]).tolist()
    [3, 3, 0, 6]
    """
    speeds = np.ones(n_workers) if capacities is None else np.asarray(capacities, np.float64)
    stays = speeds > 0
    are_speeds = speeds.shape == (n_workers,) and np.all(np.isfinite(speeds) & (speeds >= 0))
    if not (are_speeds and stays.any()):
        raise ValueError(
            f"ring: capacities must be {n_workers} finite numbers of at least 0, one of them above "
            f"0, not {capacities!r}"
        )
    unit = float(speeds[stays].mean()) if unit is None else unit
    n_points = np.maximum(np.rint(virtual_nodes * speeds / unit), stays).astype(np.int64)
    positions = np.empty(int(n_points.sum()), np.uint64)
    workers = np.empty(positions.size, np.int32)
    _place(n_points, seed_array(seed, 1)[0], positions, workers)
    order = np.lexsort((workers, positions))  # two points in one place: the lower worker's first
    positions, workers = positions[order], workers[order]

    # As many buckets as points, or up to twice as many: at most one point each on average.
    bits = max(1, (positions.size - 1).bit_length())
    starts = np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
    return Ring(
        positions=np.append(positions, np.uint64(2**64 - 1)),
        workers=np.append(workers, workers[0]),
        first=np.searchsorted(positions, starts).astype(np.int32),
        shift=np.array([64 - bits], np.uint64),
        unit=np.array([unit]),
        seen=np.zeros(n_workers, np.int64),
        stamp=np.zeros(1, np.int64),
    )


@kernel
def _place(n_points: Ints, seed: U64, positions: Words, workers: Workers) -> None:
    i = 0
    for worker in range(n_points.size):
        own_seed = draw(seed, worker)
        for j in range(n_points[worker]):
            positions[i] = draw(own_seed, j)
            workers[i] = worker
            i += 1


@kernel
def find_point(ring: Ring, hashed: U64) -> I64:
    """Return the first point at or after `hashed`; past the last one, the end of `positions`."""
    point = np.int64(ring.first[np.int64(hashed >> ring.shift[0])])
    while ring.positions[point] < hashed:
        point += 1
    return point


@kernel
def owner(ring: Ring, hashed: U64) -> I32:
    """Return the worker that owns `hashed`, a well-mixed 64-bit hash."""
    return ring.workers[find_point(ring, hashed)]


@kernel
def candidates(ring: Ring, hashed: U64, n: I64, out: Workers) -> I64:
    """Fill out[:n] with the first n distinct workers clockwise from `hashed`; return how many.

    There are fewer than n only when the ring has fewer workers. The first one is the owner, and
    the candidates for n are the beginning of those for n + 1. The cost is the points walked over:
    about n while n is well below the number of workers, n·ln n when it is all of them. Two
    threads cannot walk the same ring at once, because they would share its scratch space.
    """
    n_points = ring.positions.size - 1
    ring.stamp[0] += 1
    first = find_point(ring, hashed)
    found = 0
    for point in range(first, first + n_points):
        if found == n:
            break
        worker = ring.workers[point if point < n_points else point - n_points]
        if ring.seen[worker] != ring.stamp[0]:
            ring.seen[worker] = ring.stamp[0]
            out[found] = worker
            found += 1
    return found
