"""Packs keys onto workers: heavy keys first, and only what fits on no worker is split.

A key belongs to a bucket, its hash modulo the number of buckets, and each bucket has a home. Heavy
keys are listed and placed one by one, by decreasing load: at home, or where there is most room. A
key that fits nowhere fills workers up to their fair share, one after the other. Each of them is
full then, so that there are at most n − 1 splits in all. Light keys stay in their buckets. While
a worker has too much, some of its buckets get another home, and at last some of its light keys.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from skewless.arrays import Floats, Ints, Keys, Workers
from skewless.metrics import imbalance

#: A key with less than this part of the largest fair share is light.
_LIGHT = 1 / 64
_MOST_BUCKETS = 1 << 13
_MOST_PER_WORKER = 64
#: About how many keys are listed in all, and how many of a bucket at least.
_MOST_LISTED = 1 << 14
_LEAST_LISTED = 2
#: Relative error of sums of loads.
_ROUNDING = 1e-9


class KeyCounts(NamedTuple):
    """What was counted: the heaviest keys of every bucket, and the load of the whole bucket.

    A load is a number of records or a sum of weights.
    """

    hashes: Keys
    loads: Floats
    buckets: Floats
    n_keys: int


class Piece(NamedTuple):
    """A part of a key's records, and the worker that gets it."""

    worker: int
    share: float


class Packed(NamedTuple):
    """Where the buckets and the listed keys go, and the loads that follow."""

    homes: Workers
    placed: tuple[tuple[int, tuple[Piece, ...]], ...]  # keys that are not whole at home, by place
    loads: Floats

    @property
    def n_splits(self) -> int:
        """By how much the replicas exceed the keys."""
        return sum(len(pieces) - 1 for _, pieces in self.placed)


def first_homes(n_workers: int, capacities: Sequence[float] | None = None) -> Workers:
    """Return the worker of each bucket before anything is packed, in proportion to capacities.

    >>> first_homes(3)[:5].tolist()
    [0, 1, 2, 0, 1]
    >>> np.bincount(first_homes(3, [2, 1, 0])).tolist()
    [128, 64]
    """
    per_worker = max(1, min(_MOST_PER_WORKER, _MOST_BUCKETS // n_workers))
    n_buckets = n_workers * per_worker
    if capacities is None or len(set(capacities)) == 1:
        return np.resize(np.arange(n_workers, dtype=np.int32), n_buckets)
    speeds = np.asarray(capacities, np.float64)
    borders = np.rint(np.cumsum(speeds / speeds.sum()) * n_buckets).astype(np.int64)
    return np.repeat(np.arange(n_workers, dtype=np.int32), np.diff(borders, prepend=0))


def listed_per_bucket(n_buckets: int) -> int:
    """Return how many keys of each bucket are listed: the table is bounded.

    >>> listed_per_bucket(1024), listed_per_bucket(100_000)
    (16, 2)
    """
    return max(_LEAST_LISTED, _MOST_LISTED // n_buckets)


def buckets_of(hashes: Keys, n_buckets: int) -> Ints:
    """Return the bucket of each hash, as Spark's `pmod` of the number with a sign.

    >>> buckets_of(np.array([5, 2**64 - 1], np.uint64), 4).tolist()
    [1, 3]
    """
    return np.mod(hashes.view(np.int64), n_buckets)


def pack(
    counts: KeyCounts,
    n_workers: int,
    capacities: Sequence[float] | None = None,
    tolerance: float = 0.05,
    *,
    whole_keys: bool = False,
) -> Packed:
    """Return where the keys go.

    The imbalance is at most `tolerance` if no bucket has more light keys than the tolerance of one
    worker. Keys at home are preferred. If that splits more keys than packing without regard to
    homes, the latter is returned. With `whole_keys`, no key is split, and a key that is too heavy
    for one worker is on one worker nevertheless.
    """
    work = _Work(counts, n_workers, capacities, whole_keys)
    largest = work.limits(tolerance).max()
    # Splits without which keys that are heavier than any worker cannot be placed.
    giants = counts.loads[counts.loads > largest]
    n_needed = (np.ceil(giants / largest) - 1).sum() if giants.size else 0
    tried: list[tuple[float, int, Packed]] = []
    # Records of split keys are dealt at random. So half of the tolerance is left to chance, unless
    # that takes more splits.
    for allowed, at_home in itertools.product((tolerance / 2, tolerance), (True, False)):
        packed = work.packed(allowed, at_home=at_home)
        excess = imbalance(packed.loads, capacities) - tolerance
        if excess <= 0 and packed.n_splits <= n_needed:
            return packed
        tried.append((max(excess - _ROUNDING, 0.0), packed.n_splits, packed))
    return min(tried, key=lambda one: one[:2])[2]


class _Work:
    """The loads to pack, and what the workers can take."""

    def __init__(
        self,
        counts: KeyCounts,
        n_workers: int,
        capacities: Sequence[float] | None,
        whole_keys: bool,
    ) -> None:
        speeds = np.ones(n_workers) if capacities is None else np.asarray(capacities, np.float64)
        self.total = float(counts.buckets.sum())
        self.fair: Floats = self.total * speeds / speeds.sum()
        self.whole_keys, self.loads = whole_keys, counts.loads
        self.homes = first_homes(n_workers, capacities)
        self.bucket = buckets_of(counts.hashes, self.homes.size)
        order = np.lexsort((counts.hashes, -self.loads))
        least = max(float(self.fair.max()) * _LIGHT, np.nextafter(0, 1))
        is_heavy = self.loads[order] >= least
        self.heavy, self.light = order[is_heavy].tolist(), order[~is_heavy].tolist()
        listed = np.bincount(self.bucket[self.heavy], self.loads[self.heavy], self.homes.size)
        self.rests: Floats = np.maximum(counts.buckets - listed, 0.0)

    def limits(self, tolerance: float) -> Floats:
        return self.fair * (1.0 + tolerance) + _ROUNDING * self.total

    def packed(self, tolerance: float, *, at_home: bool) -> Packed:
        """Return the packing; `at_home`: a heavy key stays at home where there is room."""
        rooms = _Rooms(self.fair, self.limits(tolerance))
        placed: dict[int, tuple[Piece, ...]] = {}
        for key in self.heavy:
            home, load = int(self.homes[self.bucket[key]]), float(self.loads[key])
            if at_home and rooms.loads[home] + load <= self.fair[home]:
                rooms.loads[home] += load
                placed[key] = (Piece(home, 1.0),)
            else:
                placed[key] = self._placed(load, rooms)
        homes = self._new_homes(rooms)
        self._move_light_keys(homes, rooms, placed)
        table = [
            (key, pieces)
            for key, pieces in placed.items()
            if pieces != (Piece(int(homes[self.bucket[key]]), 1.0),)
        ]
        return Packed(homes, tuple(table), rooms.loads)

    def _placed(self, load: float, rooms: _Rooms) -> tuple[Piece, ...]:
        """Place a key where there is most room, in pieces if it does not fit; return them."""
        pieces: dict[int, float] = {}
        left = load
        while left > 0:
            worker = rooms.most()
            part = float(self.fair[worker] - rooms.loads[worker])
            is_last = self.whole_keys or rooms.fits(worker, left) or part <= 0
            if is_last or left - part <= _ROUNDING * load:
                part = left
            rooms.add(worker, part)
            pieces[worker] = pieces.get(worker, 0.0) + part / load
            left -= part
        return tuple(Piece(worker, share) for worker, share in pieces.items())

    def _new_homes(self, rooms: _Rooms) -> Workers:
        """Return the homes of the buckets, with the loads of their light keys added."""
        homes: Workers = self.homes.copy()
        rooms.loads += np.bincount(homes, self.rests, self.fair.size)
        moving = []
        for bucket in np.argsort(-self.rests, kind="stable").tolist():
            home = homes[bucket]
            if not rooms.fits(home) and self.rests[bucket] > 0:
                rooms.loads[home] -= self.rests[bucket]
                moving.append(bucket)
        for bucket in moving:
            homes[bucket] = rooms.most()
            rooms.add(int(homes[bucket]), float(self.rests[bucket]))
        return homes

    def _move_light_keys(
        self, homes: Workers, rooms: _Rooms, placed: dict[int, tuple[Piece, ...]]
    ) -> None:
        """Move light keys from workers that have too much to where they fit."""
        if not (rooms.loads > rooms.limits).any():
            return
        for key in self.light:
            home, load = int(homes[self.bucket[key]]), float(self.loads[key])
            worker = rooms.most()
            if load > 0 and not rooms.fits(home) and rooms.fits(worker, load):
                rooms.add(home, -load)
                rooms.add(worker, load)
                placed[key] = (Piece(worker, 1.0),)


class _Rooms:
    """The loads of the workers, and the worker that is farthest below its fair share."""

    def __init__(self, fair: Floats, limits: Floats) -> None:
        self.fair, self.limits, self.loads = fair, limits, np.zeros(fair.size)
        able: list[int] = np.flatnonzero(fair > 0).tolist() or [0]
        self._heap = [(-float(fair[worker]), worker) for worker in able]
        heapq.heapify(self._heap)

    def fits(self, worker: int, load: float = 0.0) -> bool:
        return bool(self.loads[worker] + load <= self.limits[worker])

    def add(self, worker: int, load: float) -> None:
        self.loads[worker] += load
        heapq.heappush(self._heap, (-float(self.fair[worker] - self.loads[worker]), worker))

    def most(self) -> int:
        """Return the worker with most room. Loads may have grown since they were noted."""
        while True:
            noted, worker = self._heap[0]
            room = float(self.fair[worker] - self.loads[worker])
            if -noted == room:
                return worker
            heapq.heapreplace(self._heap, (-room, worker))
