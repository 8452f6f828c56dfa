"""Packs keys for two rounds of work: the heaviest first, over all workers, then whole keys.

A whole key is finished by its worker. The pieces of a split key must be merged, so they are worked
on first. Each round is balanced by itself, because it begins when the one before has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from skewless.arrays import Floats
from skewless.planning.packing import KeyCounts, Packed, Piece, first_homes, pack

#: Part of a fair share below which a piece is left to the worker before.
_SLIVER = 1e-9


class TwoRounds(NamedTuple):
    """Where the keys go, and the keys of the first round, by place."""

    packed: Packed
    first: tuple[int, ...]


def pack_two_rounds(
    counts: KeyCounts,
    n_workers: int,
    capacities: Sequence[float] | None = None,
    tolerance: float = 0.05,
) -> TwoRounds:
    """Return where the keys go; k keys of the first round have at most n + k − 1 pieces.

    A key is in the first round if no worker can have it among keys that are all whole.

    >>> counts = KeyCounts(np.arange(3, dtype=np.uint64), np.array([9.0, 1, 1]), np.ones(64), 3)
    >>> counts = counts._replace(buckets=np.bincount([0, 1, 2], counts.loads, 128))
    >>> pack_two_rounds(counts, 2).packed.placed
    ((0, (Piece(worker=0, share=0.5), Piece(worker=1, share=0.5))),)
    """
    speeds = np.ones(n_workers) if capacities is None else np.asarray(capacities, np.float64)
    shares: Floats = speeds / speeds.sum()
    split: list[int] = []
    rest = float(counts.buckets.sum())
    for key in np.lexsort((counts.hashes, -counts.loads)).tolist():
        if counts.loads[key] <= rest * shares.max() * (1.0 + tolerance):
            break
        split.append(key)
        rest -= float(counts.loads[key])
    while True:
        whole = _without(counts, split)
        if not whole.buckets.any():
            homes = first_homes(n_workers, capacities)
            packed = Packed(homes, (), np.zeros(n_workers))
            break
        packed = pack(whole, n_workers, capacities, tolerance)
        found = [key for key, pieces in packed.placed if len(pieces) > 1]
        if not found:
            break
        split += found
    pieces = _wrapped_around([float(counts.loads[key]) for key in split], shares)
    placed = tuple(zip(split, pieces, strict=True))
    of_split = float(counts.loads[split].sum()) * shares
    both = Packed(packed.homes, placed + packed.placed, packed.loads + of_split)
    return TwoRounds(both, tuple(split))


def _without(counts: KeyCounts, keys: list[int]) -> KeyCounts:
    """Return the counts as if these keys had no records."""
    loads = counts.loads.copy()
    loads[keys] = 0.0
    buckets = np.mod(counts.hashes[keys].view(np.int64), counts.buckets.size)
    of_keys = np.bincount(buckets, counts.loads[keys], counts.buckets.size)
    return counts._replace(loads=loads, buckets=np.maximum(counts.buckets - of_keys, 0.0))


def _wrapped_around(loads: Sequence[float], shares: Floats) -> list[tuple[Piece, ...]]:
    """Return the pieces of each key: workers are filled one after the other (McNaughton, 1959)."""
    rooms = shares * sum(loads)
    able = np.flatnonzero(rooms > 0).tolist()
    sliver = _SLIVER * sum(loads)
    found, place = [], 0
    for load in loads:
        pieces, left = [], load
        while left > sliver:
            worker = able[place]
            is_last = place + 1 == len(able)
            part = left if is_last or left - rooms[worker] <= sliver else float(rooms[worker])
            pieces.append(Piece(worker, part / load))
            rooms[worker] -= part
            left -= part
            place += not is_last and rooms[worker] <= sliver
        found.append(tuple(pieces))
    return found
