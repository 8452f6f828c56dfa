"""Records of a workload, with their weights if it has any; record i is of source i mod n."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from skewless.arrays import Floats, Ints, Keys, Workers
from skewless.parameters import require_weights
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
