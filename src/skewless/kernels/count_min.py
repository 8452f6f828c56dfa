"""Count-min sketch: an estimate of every key's weight in fixed memory, never too low.

Each row of cells gives a key one cell by hash; a record adds its weight to the key's cell in every
row, and the estimate is the smallest of them. With conservative update, a record lifts its cells
only as far as the new estimate needs, which leaves less to the keys that share them.

With N the weight of all records, and for one key and hashes drawn at random:

- true weight ≤ estimate;
- estimate ≤ true weight + epsilon · N with a probability of at least 1 − delta.

References
----------
G. Cormode, S. Muthukrishnan: An improved data stream summary: the count-min sketch and its
applications, J. Algorithms 2005, section 3. Conservative update: C. Estan, G. Varghese: New
directions in traffic measurement and accounting, SIGCOMM 2002, section 3.3.2.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import F64, U64, Floats, Ints, Words
from skewless.kernels.hashing import seed_array, seeded
from skewless.plumbing.compiling import kernel
from skewless.state import MOST_WEIGHT, fixed, require_within, within


@fixed("seeds", "conservative", "bits")
@within(0, MOST_WEIGHT, "cells", "total")
class CountMin(NamedTuple):
    """Rows of cells, and how a key finds its cell in each of them."""

    cells: NDArray[np.float64]  # row by column; the number of columns is a power of two
    seeds: Words  # one 64-bit hash serves as many rows as it has bits for
    conservative: Ints  # [1 for conservative update, else 0]
    total: Floats  # [weight of all records]
    bits: Ints  # [bits of a hash that choose a column]
    columns: Ints  # of the key at hand, one per row: scratch

    def check(self, fresh: CountMin) -> None:
        """Refuse columns that do not exist."""
        require_within("columns", self.columns, 0, self.cells.shape[1] - 1)


def count_min(
    epsilon: float, delta: float, *, conservative: bool = False, seed: int = 0
) -> CountMin:
    """Return an empty sketch of e / epsilon columns (or up to twice that) and ln(1 / delta) rows.

    >>> count_min(epsilon=0.01, delta=0.01).cells.shape
    (5, 512)
    """
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if not 0 < value < 1:
            raise ValueError(f"{name} must be above 0 and below 1, not {value!r}")
    n_columns = 1 << math.ceil(math.log2(math.e / epsilon))
    n_rows = math.ceil(math.log(1 / delta))
    bits = n_columns.bit_length() - 1
    n_hashes = math.ceil(n_rows / (64 // bits))
    return CountMin(
        cells=np.zeros((n_rows, n_columns)),
        seeds=seed_array(seed, n_hashes),
        conservative=np.array([conservative], np.int64),
        total=np.zeros(1),
        bits=np.array([bits], np.int64),
        columns=np.zeros(n_rows, np.int64),
    )


@kernel
def _find_columns(sketch: CountMin, key: U64) -> None:
    """Fill `columns` with the cell of `key` in each row: every row from bits of its own."""
    mask = np.uint64(sketch.cells.shape[1] - 1)
    bits = np.uint64(sketch.bits[0])
    hashed = np.uint64(0)
    n_left = 0
    n_hashes = 0
    for row in range(sketch.cells.shape[0]):
        if n_left == 0:
            hashed = seeded(key, sketch.seeds[n_hashes])
            n_hashes += 1
            n_left = 64 // sketch.bits[0]
        sketch.columns[row] = np.int64(hashed & mask)
        hashed >>= bits
        n_left -= 1


@kernel
def add(sketch: CountMin, key: U64, weight: F64) -> F64:
    """Count a record of this weight (0 or more), and return the new estimate of its key."""
    sketch.total[0] += weight
    new = estimate(sketch, key) + weight
    for row in range(sketch.cells.shape[0]):
        column = sketch.columns[row]
        if sketch.conservative[0] == 0:
            sketch.cells[row, column] += weight
        elif sketch.cells[row, column] < new:
            sketch.cells[row, column] = new
    return new


@kernel
def estimate(sketch: CountMin, key: U64) -> F64:
    """Return the estimate of `key`, never below its true weight."""
    _find_columns(sketch, key)
    smallest = np.inf
    for row in range(sketch.cells.shape[0]):
        smallest = min(smallest, sketch.cells[row, sketch.columns[row]])
    return smallest


@kernel
def clear(sketch: CountMin) -> None:
    """Forget all records."""
    sketch.total[0] = 0.0
    for row in range(sketch.cells.shape[0]):
        for column in range(sketch.cells.shape[1]):
            sketch.cells[row, column] = 0.0
