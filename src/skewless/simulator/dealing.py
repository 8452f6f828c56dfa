"""Records of the stream and those of its sources: record i belongs to source i mod n.

Each source gets a stretch of one array. There are gaps between the stretches: if their distance
were a power of two, all would fall into the same few lines of the processor's cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import I64, Ints
from skewless.plumbing.compiling import kernel

_GAP = 16  # places: a line of cache, for numbers of 4 bytes


def shares(n_records: int, first: int, n_sources: int) -> Ints:
    """Count the records of each source, if the first of `n_records` belongs to `first`.

    >>> shares(5, 2, 3).tolist()
    [2, 1, 2]
    """
    turns = (np.arange(n_sources) - first) % n_sources  # until it is first the turn of each
    counts: Ints = (n_records - turns + n_sources - 1) // n_sources
    return np.maximum(counts, 0)


def stretches(lengths: Ints) -> tuple[Ints, int]:
    """Return where each source's stretch begins, and the size of an array that holds them all."""
    begins: Ints = np.cumsum(lengths + _GAP) - (lengths + _GAP)
    return begins, int(lengths.sum()) + _GAP * lengths.size


@kernel
def deal(values: NDArray[Any], first: I64, begins: Ints, out: NDArray[Any]) -> None:
    """Put the values into the stretches of their sources; the first one belongs to `first`."""
    n_sources = begins.size
    source, row = first, 0
    for i in range(values.size):
        # Sources before the first one have their first value in the second row.
        out[begins[source] + row - (1 if source < first else 0)] = values[i]
        source += 1
        if source == n_sources:
            source = 0
            row += 1


@kernel
def collect(dealt: NDArray[Any], first: I64, begins: Ints, out: NDArray[Any]) -> None:
    """Put the values of all sources back into the order of the stream."""
    n_sources = begins.size
    source, row = first, 0
    for i in range(out.size):
        out[i] = dealt[begins[source] + row - (1 if source < first else 0)]
        source += 1
        if source == n_sources:
            source = 0
            row += 1


@kernel
def refill(
    old: NDArray[Any],
    head: Ints,
    end: Ints,
    values: NDArray[Any],
    first: I64,
    begins: Ints,
    out: NDArray[Any],
) -> None:
    """Fill each stretch with what its source had left, `head` to `end`, and then the new values."""
    n_sources = begins.size
    for source in range(n_sources):
        for i in range(end[source] - head[source]):
            out[begins[source] + i] = old[head[source] + i]
    source, row = first, 0
    for i in range(values.size):
        place = begins[source] + end[source] - head[source] + row
        out[place - (1 if source < first else 0)] = values[i]
        source += 1
        if source == n_sources:
            source = 0
            row += 1
