"""Cascade, one record at a time: places are objects, orders are lists, no tables of hashes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from reference.cascade.place import Place
from reference.kernels.hashing import GOLDEN, TWO_TO_32, TWO_TO_64, mix, seeded, seeds

PLACES_PER_BUCKET = 8
SLOTS_PER_WORKER = 32
BLOCK = 256
COUNT_EVERY = 16
FEW = 8
MOST_WAITING = 32
STEPS_PER_RECORD = 16
SAVED_PER_WORKER = 1024


class CascadeReference:
    """One source."""

    def __init__(
        self, n_workers: int, seed: int, tolerance: float = 0.05, without: str = "nothing"
    ) -> None:
        self.n = n_workers
        (self.seed,) = seeds(seed, 1)
        self.without = without
        self.tolerance = tolerance
        self.keep = 1.0 if without == "fading" else 0.8
        self.forgiven = 0.0
        self.steps = 0  # as they are charged
        self.looks = 0  # at a worker's level, on the way to one that has room
        self.n_refused = 0  # searches

        self.levels = [0.0] * n_workers
        self.handicaps = [0.0] * n_workers
        self.level = 0.0
        self.records = 0
        self.epoch = 64 * n_workers
        n_buckets = 1
        while n_buckets * PLACES_PER_BUCKET < 16 * n_workers:
            n_buckets *= 2
        self.buckets = [[Place() for _ in range(PLACES_PER_BUCKET)] for _ in range(n_buckets)]
        self.aside: list[tuple[int, int, float]] = []
        self.unit = 1.0
        self.weight = 0.0
        self.old_weight = 0.0
        self.old_records = 0.0
        self.watched = 0.0
        self.first_weight = 0.0
        self.weights_vary = False
        self.corrected: list[tuple[int, int]] = []  # after so many records, which key
        self.look_at = max(8 * n_workers, BLOCK)
        self.top = 0.0
        self.heavy_from = 4.0
        self.measure_rooms(1.0)

    def measure_rooms(self, scale: float) -> None:
        room = self.tolerance * 10_000 / self.n
        most_room = max(4.5, 0.5 * room)
        light_room = max(7.5, room)
        self.scale = scale
        self.light_room = (math.inf if self.without == "yielding" else light_room) * scale
        self.debt = 2.0 * light_room * scale
        per_halving = 0.0 if self.without == "grading" else most_room / 4.0
        self.room_per_halving = per_halving * scale
        whole = self.without == "splitting"
        self.least_room = (math.inf if whole else -1.0) * scale
        self.most_room = (math.inf if whole else most_room) * scale

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

    def find(self, key: int, hashed: int) -> Place | None:
        for place in self.buckets[hashed % len(self.buckets)]:
            if place.count > 0 and place.key == key:
                return place
        return None

    # Who is heavy

    def grade(self, place: Place, count: float) -> None:
        place.is_heavy = count >= self.heavy_from and count > 0
        if not place.is_heavy:
            return
        if count >= self.top:
            self.top = count
            place.room = self.least_room
        else:
            halvings = math.floor(math.log2(self.top / count))
            place.room = min(self.room_per_halving * halvings, self.most_room)
            place.room = max(place.room, self.least_room)
        place.recheck = 1.5 * count
        self.set_limit(place)

    def set_limit(self, place: Place) -> None:
        is_few = place.reach <= FEW and place.reach < self.n
        place.limit = place.room if is_few else self.light_room

    def begin_again(self, place: Place) -> None:
        place.position = place.reach
        place.waiting = []
        place.turn = 0
        place.floor = 0.0
        self.set_limit(place)

    def grade_all(self) -> None:
        self.top = max(place.count for place in self.places())
        for place in self.places():
            if place.is_heavy or place.count >= self.heavy_from:
                self.grade(place, place.count)

    def handicap(self) -> None:
        level = self.level - sum(self.handicaps) / self.n
        for worker, before in enumerate(self.handicaps):
            excess = self.levels[worker] - before - level
            part = 0.0 if self.without == "handicaps" else 0.1
            after = max(0.0, min(before + part * excess, self.light_room))
            self.handicaps[worker] = after
            self.levels[worker] += after - before
            self.level += (after - before) / self.n

    def sweep(self) -> None:
        self.handicap()
        self.unit /= self.keep
        is_new_unit = self.unit >= 1e150
        if is_new_unit:
            for place in self.places():
                place.count /= self.unit
            self.unit = 1.0
        self.old_weight = (self.old_weight + self.weight) * self.keep
        self.old_records = (self.old_records + self.epoch) * self.keep
        self.weight = 0.0
        if is_new_unit:
            self.watch()
        fair = self.old_weight * self.unit / self.n
        if fair > 0:
            self.measure_rooms(self.old_weight / self.old_records)
            self.heavy_from = fair / 8
        self.grade_all()
        for place in self.places():
            if place.reach > 1 and 2 * place.count < self.top:
                most = 1 + int(2 * place.count / fair)
                if place.reach > most:
                    place.reach = most
                    self.begin_again(place)

    def count(self, key: int, hashed: int, amount: float, number: int) -> None:
        place = self.find(key, hashed)
        if place is not None:
            place.count += amount
            if place.count >= self.heavy_from and (
                not place.is_heavy or place.count > place.recheck
            ):
                self.grade(place, place.count)
            return
        bucket = self.buckets[hashed % len(self.buckets)]
        place = min(bucket, key=lambda p: p.count)  # the first of the smallest
        chance = (mix((hashed + number * GOLDEN) % TWO_TO_64) >> 11) / 2**53
        if chance * (place.count + amount) < amount:
            place.key = key
            place.count += amount
            place.watched = place.count - amount
            place.order = self.order(hashed)
            place.reach = 1
            self.grade(place, place.count)
            self.begin_again(place)

    def watch(self) -> None:
        for place in self.places():
            place.watched = place.count
        self.watched = (self.old_weight + self.weight) * self.unit

    def notice(self) -> None:
        """Keys get the count that their records since the last look promise, if it is another."""
        total = (self.old_weight + self.weight) * self.unit
        new = total - self.watched
        record = self.unit * self.scale
        n_before = len(self.corrected)
        alike = not self.weights_vary
        if alike and self.watched > 0 and new > 0 and self.keep < 1:
            for place in self.places():
                seen = place.count - place.watched
                expected = place.watched * (new / self.watched)
                larger, smaller, gap = max(seen, expected), min(seen, expected), seen - expected
                least = 36 * record
                is_exact = gap < 0 or place.watched >= self.heavy_from
                is_other = 2 * smaller < larger and gap * gap > least * larger
                if larger > least and is_other and is_exact:
                    place.count = max(seen * (total / new), record)
                    self.corrected.append((self.records, place.key))
        self.watch()
        self.look_at = self.records + max(8 * self.n, BLOCK)
        if len(self.corrected) > n_before:
            self.grade_all()

    def count_aside(self) -> None:
        for i, key, weight in self.aside:
            amount = self.unit * COUNT_EVERY * weight
            self.count(key, seeded(key, self.seed), amount, self.records + i)
        self.aside = []
        if self.old_records == 0:
            mean = self.weight / self.records
            if mean > 0 and mean != self.scale:
                self.measure_rooms(mean)
                self.heavy_from = 4.0 * mean
                self.grade_all()

    # Where records go

    def least(self) -> int:
        return min(range(self.n), key=lambda w: self.levels[w])

    def may_search(self) -> bool:
        saved = SAVED_PER_WORKER * self.n
        return self.steps <= STEPS_PER_RECORD * self.records + saved

    def charge(self, n_steps: int) -> None:
        self.steps = max(self.steps, STEPS_PER_RECORD * self.records) + n_steps

    def level_of(self, worker: int) -> float:
        self.looks += 1
        return self.levels[worker]

    def light_worker(self, order: list[int]) -> int:
        limit = self.level + self.light_room
        if self.level_of(order[0]) <= limit:
            return order[0]
        if not self.may_search():
            self.n_refused += 1
            return self.least()
        for position in range(1, self.n):
            if self.level_of(order[position]) <= limit:
                self.charge(position)
                return order[position]
        self.charge(self.n)
        return self.least()

    def heavy_worker(self, place: Place) -> int:
        return self.one_of_few(place) if place.reach <= FEW else self.one_of_many(place)

    def one_of_few(self, place: Place) -> int:
        limit = self.level + place.limit
        worker = place.order[place.turn]
        following = (place.turn + 1) % place.reach
        second = place.order[following]
        is_lagging = self.levels[worker] <= self.level - self.scale
        if not is_lagging and self.levels[second] < self.levels[worker] - self.scale:
            worker, place.turn = second, following
        if self.levels[worker] <= limit:
            return worker
        for turn in range(place.reach):
            if self.level_of(place.order[turn]) <= limit:
                place.turn = turn
                return place.order[turn]
        return self.extend(place)

    def one_of_many(self, place: Place) -> int:
        while True:
            if not place.waiting and not self.refill(place):
                return self.extend(place)
            worker = place.waiting[0]
            if self.levels[worker] > self.level + place.limit:
                place.waiting.pop(0)
                continue
            floor = max(place.floor, self.level - self.scale)
            if self.levels[worker] > floor - self.scale:  # one more record, and it is full
                place.waiting.pop(0)
            return worker

    def refill(self, place: Place) -> bool:
        if not self.may_search():
            return False
        before = self.looks
        found = self.look_within_reach(place)
        self.charge(self.looks - before)
        return found

    def look_within_reach(self, place: Place) -> bool:
        limit = self.level + place.room if place.reach < self.n else math.inf
        floor = max(place.floor, self.level - self.scale)
        shares = place.count / (8 * self.heavy_from)
        most = int(max(1.0, min(2 * shares, MOST_WAITING)))
        from_the_first = False
        while not place.waiting:
            if place.position >= place.reach:
                if floor >= limit:
                    return False
                floor += self.scale
                if from_the_first:
                    floor = max(floor, min(map(self.level_of, place.order[: place.reach])))
                floor = min(floor, limit)
                place.position = 0
                from_the_first = True
            while place.position < place.reach and len(place.waiting) < most:
                worker = place.order[place.position]
                if self.level_of(worker) <= floor:
                    place.waiting.append(worker)
                place.position += 1
        place.floor = floor
        return True

    def extend(self, place: Place) -> int:
        if not self.may_search():
            self.n_refused += 1
            return self.least()
        for position in range(place.reach, self.n):
            worker = place.order[position]
            if self.level_of(worker) <= self.level:
                self.charge(position + 1 - place.reach)
                level = self.level
                missing = level - self.debt - self.levels[worker]
                if missing > 0:
                    self.levels[worker] += missing
                    self.level += missing / self.n
                    self.forgiven += missing
                place.reach = position + 1
                self.begin_again(place)
                place.turn = position if position < FEW else 0
                place.floor = level
                return worker
        self.charge(self.n - place.reach)
        place.reach = self.n
        self.begin_again(place)
        return self.least()

    def route_one(self, key: int, weight: float = 1.0) -> int:
        if weight > 0 and self.weight == 0 and self.old_weight == 0:
            self.measure_rooms(weight)
            self.heavy_from = 4.0 * weight
        if self.first_weight == 0:
            self.first_weight = weight
        elif weight != self.first_weight:
            self.weights_vary = True
        hashed = seeded(key, self.seed)
        amount = weight * self.unit
        number, rest = divmod(self.records % BLOCK, COUNT_EVERY)
        place = self.find(key, hashed)
        if place is not None and place.is_heavy:
            counted = place.count + amount
            if counted > place.recheck:
                self.grade(place, counted)
            worker = self.heavy_worker(place)
            place.count = counted
        else:
            order = self.order(hashed)
            if rest == 0:
                self.aside.append((number, key, weight))
            elif self.levels[order[0]] > self.level + self.light_room:
                self.count(key, hashed, amount, self.records)
            worker = self.light_worker(order)
        self.levels[worker] += weight
        self.level += weight * (1 / self.n)
        self.weight += weight
        self.records += 1
        if self.records % self.epoch == 0:
            self.sweep()
        length = BLOCK if self.records > BLOCK else COUNT_EVERY
        if self.records % length == 0:
            self.count_aside()
            if self.records >= self.look_at:
                self.notice()
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
