"""Cascade, one record at a time: places are objects, orders are lists, nothing is skipped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from reference.hashing import GOLDEN, TWO_TO_32, TWO_TO_64, mix, seeded, seeds

PLACES_PER_BUCKET = 8
SLOTS_PER_WORKER = 32
LAG = 1.0
QUANTUM = 1.0


@dataclass
class Place:
    """Where one key is counted, and how far it has come in its order of workers."""

    key: int = 0
    count: float = 0.0
    room: float = 0.0
    recheck: float = 4.0
    floor: float = 0.0
    reach: int = 1
    position: int = 0
    worker: int = 0


class CascadeReference:
    """One source."""

    def __init__(
        self, n_workers: int, seed: int, tolerance: float = 0.05, without: str = "nothing"
    ) -> None:
        self.n = n_workers
        (self.seed,) = seeds(seed, 1)
        room = max(7.5, tolerance * 10_000 / n_workers)
        self.without = without
        self.light_room = math.inf if without == "yielding" else room
        self.most_room = max(3.25, 0.5 * tolerance * 10_000 / n_workers)
        self.room_per_halving = 0.0 if without == "grading" else self.most_room / 4.0
        self.keep = 1.0 if without == "fading" else 0.8
        self.debt = 2.0 * room
        self.forgiven = 0.0

        self.levels = [0.0] * n_workers
        self.level = 0.0
        self.records = 0
        self.epoch = 64 * n_workers
        n_buckets = 1
        while n_buckets * PLACES_PER_BUCKET < 16 * n_workers:
            n_buckets *= 2
        self.buckets = [[Place() for _ in range(PLACES_PER_BUCKET)] for _ in range(n_buckets)]
        self.n_spots = 4 * n_buckets * PLACES_PER_BUCKET
        self.spots: dict[int, Place] = {}
        self.unit = 1.0
        self.total = 0.0
        self.top = 0.0
        self.heavy_from = 4.0

    def places(self) -> Iterator[Place]:
        for bucket in self.buckets:
            yield from bucket

    def order(self, hashed: int) -> list[int]:
        """All workers, as a key with that hash goes through them."""
        upper, lower = divmod(hashed, TWO_TO_32)
        home = upper * self.n * SLOTS_PER_WORKER // TWO_TO_32 // SLOTS_PER_WORKER
        steps = [s for s in range(1, max(2, self.n)) if math.gcd(s, self.n) == 1]
        step = steps[lower * len(steps) // TWO_TO_32]
        return [(home + j * step) % self.n for j in range(self.n)]

    def grade(self, place: Place) -> None:
        if place.count < self.heavy_from or place.count <= 0:
            place.room, place.recheck = self.light_room, self.heavy_from
            return
        if place.count >= self.top:
            self.top = place.count
            place.room = -LAG
        else:
            halvings = math.floor(math.log2(self.top / place.count))
            place.room = min(self.room_per_halving * halvings, self.most_room)
        if self.without == "splitting":
            place.room = math.inf
        place.recheck = 1.5 * place.count
        spot = seeded(place.key, self.seed) % self.n_spots
        if spot not in self.spots or self.spots[spot].count <= place.count:
            self.spots[spot] = place

    def heavy_place(self, key: int, hashed: int) -> Place | None:
        holder = self.spots.get(hashed % self.n_spots)
        if holder is None or holder.key == key:
            return holder
        for place in self.buckets[hashed % len(self.buckets)]:
            if place.count > 0 and place.key == key and place.room != self.light_room:
                return place
        return None

    def sweep(self) -> None:
        self.unit /= self.keep
        if self.unit >= 1e150:
            for place in self.places():
                place.count /= self.unit
            self.total /= self.unit
            self.unit = 1.0
        self.top = max(place.count for place in self.places())
        self.spots.clear()
        fair = self.total / self.n
        self.heavy_from = fair / 8
        for place in self.places():
            self.grade(place)
            if 2 * place.count < self.top:
                most = max(1, int(2 * place.count / fair))
                if place.reach > most:
                    place.reach = place.position = most

    def count(self, key: int, hashed: int, home: int, amount: float) -> None:
        bucket = self.buckets[hashed % len(self.buckets)]
        for place in bucket:
            if place.count > 0 and place.key == key:
                place.count += amount
                if place.count > place.recheck:
                    self.grade(place)
                return
        place = min(bucket, key=lambda p: p.count)  # the first of the smallest
        chance = (mix((hashed + self.records * GOLDEN) % TWO_TO_64) >> 11) / 2**53
        if chance * (place.count + amount) < amount:
            place.key = key
            place.count += amount
            place.reach, place.position, place.worker, place.floor = 1, 0, home, 0.0
            self.grade(place)

    def least(self) -> int:
        return min(range(self.n), key=lambda w: self.levels[w])

    def light_worker(self, order: list[int]) -> int:
        for worker in order:
            if self.levels[worker] <= self.level + self.light_room:
                return worker
        return self.least()

    def heavy_worker(self, place: Place, order: list[int]) -> int:
        floor = max(place.floor, self.level - LAG)
        if self.levels[place.worker] <= floor:
            return place.worker
        limit = self.level + place.room if place.reach < self.n else math.inf
        position = place.position + 1
        while True:
            while position < place.reach:
                if self.levels[order[position]] <= floor:
                    place.worker, place.position, place.floor = order[position], position, floor
                    return place.worker
                position += 1
            if floor >= limit:
                return self.extend(place, order)
            position = 0
            floor = min(floor + QUANTUM, limit)

    def extend(self, place: Place, order: list[int]) -> int:
        for position in range(place.reach, self.n):
            worker = order[position]
            if self.levels[worker] <= self.level:
                place.reach, place.position, place.worker = position + 1, position, worker
                place.floor = self.level
                missing = self.level - self.debt - self.levels[worker]
                if missing > 0:
                    self.levels[worker] += missing
                    self.level += missing / self.n
                    self.forgiven += missing
                return worker
        place.reach = self.n
        return self.least()

    def route_one(self, key: int, weight: float = 1.0) -> int:
        hashed = seeded(key, self.seed)
        order = self.order(hashed)
        amount = weight * self.unit
        self.total += amount
        place = self.heavy_place(key, hashed)
        if place is not None:
            place.count += amount
            if place.count > place.recheck:
                self.grade(place)
            worker = self.heavy_worker(place, order)
        else:
            if self.records % 16 == 0:
                self.count(key, hashed, order[0], 16 * amount)
            elif self.levels[order[0]] > self.level + self.light_room:
                self.count(key, hashed, order[0], amount)
            worker = self.light_worker(order)
        self.levels[worker] += weight
        self.level += weight * (1 / self.n)
        self.records += 1
        if self.records % self.epoch == 0:
            self.sweep()
        return worker


def route(
    keys: Iterable[int],
    n_workers: int,
    seed: int,
    weights: Iterable[float] | None = None,
    **parameters: float | str,
) -> list[int]:
    source = CascadeReference(n_workers, seed, **parameters)  # type: ignore[arg-type]
    if weights is None:
        return [source.route_one(int(key)) for key in keys]
    return [
        source.route_one(int(key), float(weight)) for key, weight in zip(keys, weights, strict=True)
    ]
