"""Records of a workload, with their weights if it has any; record i is of source i mod n."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import I64, Floats, Ints, Keys, Workers
from skewless.parameters import require_weights
from skewless.plumbing.compiling import kernel
from skewless.strategy import AnyStrategy, Weighs


class Records(NamedTuple):
    """Some records in order; all weigh 1 where there are no weights."""

    keys: Keys
    weights: Floats | None

    def part(self, which: slice | Ints) -> Records:
        """Return some of them, in arrays without gaps."""
        weights = None if self.weights is None else np.ascontiguousarray(self.weights[which])
        return Records(np.ascontiguousarray(self.keys[which]), weights)


def read_records(chunks: Iterator[Keys], weights: Iterator[Floats] | None) -> Iterator[Records]:
    """Yield the chunks with their weights, after a check of the weights."""
    if weights is None:
        yield from (Records(keys, None) for keys in chunks)
        return
    none = np.empty(0)
    first = 0
    for keys in chunks:
        costs = next(weights, none)
        require_weights(costs, keys.size, first=first)
        yield Records(keys, costs)
        first += keys.size
    require_weights(next(weights, none), 0)


def joined(pieces: Sequence[Records]) -> Records:
    """Return these records one after the other."""
    weights = [piece.weights for piece in pieces if piece.weights is not None]
    keys = np.concatenate([piece.keys for piece in pieces])
    return Records(keys, np.concatenate(weights) if weights else None)


def decide(strategy: AnyStrategy, records: Records, state: Any, out: Workers) -> None:
    """Fill `out` with the workers; a strategy that weighs records is told what they cost."""
    if records.weights is not None and isinstance(strategy, Weighs):
        strategy.route_weighted(records.keys, records.weights, state, out)
    else:
        strategy.route(records.keys, state, out)


# Each source gets a stretch of one array, with a gap of so many places behind it: a line of cache,
# for numbers of 4 bytes. If the distance of the stretches were a power of two, all would fall into
# the same few lines.
_GAP = 16


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
def _keep(old: NDArray[Any], head: Ints, end: Ints, begins: Ints, out: NDArray[Any]) -> None:
    for source in range(head.size):
        shift = begins[source] - head[source]
        for i in range(head[source], end[source]):
            out[i + shift] = old[i]


def refill(
    old: NDArray[Any],
    head: Ints,
    end: Ints,
    values: NDArray[Any],
    first: int,
    begins: Ints,
    out: NDArray[Any],
) -> None:
    """Fill each stretch with what its source had left, `head` to `end`, and then the new values."""
    _keep(old, head, end, begins, out)
    deal(values, first, begins + (end - head), out)
