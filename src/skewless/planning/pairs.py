"""Cells of a join: how far each hot key is divided, and which worker gets which part.

A join makes one pair of every left and every right row of a key. A hot key gets a grid of r × c
cells. A left row belongs to one row of the grid and is copied to its c cells, a right row belongs
to one column and is copied to its r cells. So each pair meets in exactly one cell, and the cells of
a key can be on different workers. Light keys go to the home of their bucket of hashes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from skewless.arrays import Floats, Ints, Keys, Workers
from skewless.planning.packing import KeyCounts, buckets_of, first_homes, pack

#: What a row adds to the load, in pairs. It costs more than that; but where rows weigh much, a
#: worker of few rows gets more pairs than others, and pairs are what makes a task long.
ROW = 0.5
#: What it costs to copy a row, in pairs.
_COPY = 4.0
#: The largest load of a worker, in parts of the mean, that a plan is content with.
_TOLERANCE = 0.05
#: A key with less than this part of a worker's share is not hot.
HOT = 0.25
#: Cells have at most these parts of a worker's share: the first that gives even loads is taken.
_PARTS = (1.0, 0.5, 0.25, 0.125)
#: Rows that a part of a side should have at least: their number varies by chance.
_FEWEST_ROWS = 8
#: What copies may add to the work of a key where they spare a second look at the other side.
_SPARED = 0.1
#: Keys that are counted one by one, for each worker and in all.
_LISTED_PER_WORKER = 16
_FEWEST_LISTED, _MOST_LISTED = 256, 1 << 14

#: Whether rows without a match are returned: of the left side, of the right side.
KEPT = {
    "inner": (False, False),
    "left": (True, False),
    "right": (False, True),
    "full": (True, True),
    "semi": (False, False),
    "anti": (True, False),
}
#: Joins that return left rows once, whatever the number of their matches.
WITHOUT_PAIRS = ("semi", "anti")


class PairCounts(NamedTuple):
    """What was counted: the rows of the heaviest keys, and the load of all keys by their home."""

    hashes: Keys  # of the heaviest keys
    left: Floats  # how many rows of the left side each has
    right: Floats
    buckets: Floats  # the load of all keys of each bucket of hashes; the heaviest ones included


class Grid(NamedTuple):
    """The cells of one key: `workers` has those of the first row of the grid first."""

    place: int  # of the key in the counts
    rows: int
    columns: int
    workers: tuple[int, ...]


class Placed(NamedTuple):
    """The grids of keys that do not stay whole at home, the homes, and the load of each worker."""

    grids: tuple[Grid, ...]
    homes: Workers
    loads: Floats


def n_listed(n_workers: int) -> int:
    """Return how many keys are counted one by one.

    >>> n_listed(16), n_listed(64), n_listed(100_000)
    (256, 1024, 16384)
    """
    return min(max(_LISTED_PER_WORKER * n_workers, _FEWEST_LISTED), _MOST_LISTED)


def load_of(left: Floats, right: Floats, how: str) -> Floats:
    """Add up the cost of the keys: pairs and rows, in pairs; without pairs, rows alone."""
    rows: Floats = left + right
    return rows if how in WITHOUT_PAIRS else left * right + ROW * rows


def heaviest_share(counts: PairCounts, n_workers: int, how: str) -> float:
    """Return the load of the heaviest key in parts of a worker's fair share."""
    fair = float(counts.buckets.sum()) / n_workers
    heaviest = float(load_of(counts.left, counts.right, how).max(initial=0.0))
    return heaviest / fair if fair > 0 else 0.0


def loads_by_hash(counts: PairCounts, n_workers: int) -> Floats:
    """Return the load of each worker if no key is divided or moved."""
    found = np.bincount(first_homes(n_workers), counts.buckets, n_workers)
    return found.astype(np.float64)


def place_cells(counts: PairCounts, n_workers: int, how: str) -> Placed:
    """Return the grids of the hot keys, and where the cells and all other keys go."""
    fair = float(counts.buckets.sum()) / n_workers
    if not counts.hashes.size or fair <= 0:
        return Placed((), first_homes(n_workers), loads_by_hash(counts, n_workers))
    loads = load_of(counts.left, counts.right, how)
    places = buckets_of(counts.hashes, counts.buckets.size)
    light = np.maximum(counts.buckets - np.bincount(places, loads, counts.buckets.size), 0.0)
    tried: list[Placed] = []
    for part in _PARTS:
        cells = np.maximum(np.ceil(loads / (part * fair)), 1).astype(int).tolist()
        rows = zip(counts.left.tolist(), counts.right.tolist(), cells, strict=True)
        tried.append(_placed(counts, [_shape(*key, how) for key in rows], light, n_workers, how))
        if tried[-1].loads.max() <= (1 + _TOLERANCE) * fair:
            break
    return min(tried, key=lambda placed: placed.loads.max())


def _placed(
    counts: PairCounts, shapes: list[tuple[int, int]], light: Floats, n_workers: int, how: str
) -> Placed:
    """Return where the cells of these shapes go."""
    r, c = (np.array(numbers, np.int64) for numbers in zip(*shapes, strict=True))
    sizes: Ints = r * c
    keys = np.repeat(np.arange(sizes.size), sizes)
    firsts = np.cumsum(sizes) - sizes
    numbers = np.arange(keys.size) - firsts[keys]
    of_cells = load_of(counts.left / r, counts.right / c, how)[keys]
    # Each further cell of a key is packed as a key of the next bucket.
    hashes = (counts.hashes.view(np.int64)[keys] + numbers).view(np.uint64)
    places = buckets_of(hashes, light.size)
    buckets = light + np.bincount(places, of_cells, light.size)
    cells = KeyCounts(hashes, of_cells, buckets, keys.size)
    packed = pack(cells, n_workers, tolerance=_TOLERANCE, whole_keys=True)
    workers = packed.homes[places]
    for cell, pieces in packed.placed:
        workers[cell] = pieces[0].worker
    grids = [
        Grid(key, *shapes[key], tuple(workers[first : first + size].tolist()))
        for key, (first, size) in enumerate(zip(firsts.tolist(), sizes.tolist(), strict=True))
        if size > 1 or workers[first] != packed.homes[places[first]]
    ]
    return Placed(tuple(grids), packed.homes, packed.loads)


def _shape(left: float, right: float, cells: int, how: str) -> tuple[int, int]:
    """Return the rows and columns of a grid with about so many cells, and few copies.

    >>> _shape(1e6, 1e6, 16, "inner"), _shape(1e6, 1.0, 16, "inner"), _shape(9, 9, 16, "inner")
    ((4, 4), (16, 1), (1, 1))

    A row that is in one cell alone has all its possible matches there. So where unmatched rows are
    returned, their side is not copied if that costs little.

    >>> _shape(1e6, 1e6, 16, "left"), _shape(1.0, 1e6, 16, "left"), _shape(1e6, 1e6, 16, "semi")
    ((16, 1), (1, 16), (16, 1))
    """
    most = [max(int(rows // _FEWEST_ROWS), 1) for rows in (left, right)]
    if how in WITHOUT_PAIRS:
        return min(cells, most[0]), 1
    keeps_left, keeps_right = KEPT[how]
    strips = [(cells, 1)] * keeps_left + [(1, cells)] * keeps_right

    def copies(shape: tuple[int, int]) -> float:
        return left * (shape[1] - 1) + right * (shape[0] - 1)

    for rows, columns in sorted(strips, key=copies):
        fits = rows <= most[0] and columns <= most[1]
        if fits and _COPY * copies((rows, columns)) <= _SPARED * left * right:
            return rows, columns
    shapes = [
        (rows, min(math.ceil(cells / rows), most[1])) for rows in range(1, min(cells, most[0]) + 1)
    ]
    enough = [shape for shape in shapes if shape[0] * shape[1] >= cells]
    if not enough:
        return max(shapes, key=math.prod)
    return min(enough, key=copies)
