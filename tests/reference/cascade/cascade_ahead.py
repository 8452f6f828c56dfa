"""Cascade with foresight, one block at a time: keys are objects, orders are lists, no buffers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from reference.kernels.hashing import GOLDEN, TWO_TO_32, TWO_TO_64, mix, seeded, seeds

BLOCK = 1 << 14
TABLE = 2 * BLOCK
PLACES_PER_BUCKET = 8
CLOSE = 1e-6


@dataclass
class Counter:
    """Where one key is counted."""

    key: int = 0
    count: float = 0.0


@dataclass
class Key:
    """A key of the block, and the pieces of it that have a worker."""

    name: int
    hashed: int
    order: list[int]
    weight: float = 0.0
    estimate: float = 0.0
    is_heavy: bool = False
    pieces: list[list[float]] = field(default_factory=list)  # [worker, size]
    left: float = 0.0


class AheadReference:
    """One source."""

    def __init__(self, n_workers: int, seed: int, tolerance: float = 0.03) -> None:
        self.n = n_workers
        (self.seed,) = seeds(seed, 1)
        self.tolerance = tolerance
        self.levels = [0.0] * n_workers
        self.costs = [1.0] * n_workers
        self.scale = 1.0
        self.weight = 0.0  # in this interval
        self.records = 0
        self.expected = 0
        self.faded = 0.0
        self.since = 0
        self.blocks = 0
        self.unit = 1.0
        n_buckets = 1
        while n_buckets * PLACES_PER_BUCKET < 16 * n_workers:
            n_buckets *= 2
        self.buckets = [[Counter() for _ in range(PLACES_PER_BUCKET)] for _ in range(n_buckets)]
        self.n_unfound = 0  # records whose key was not found in time
        self.n_unsearched = 0  # keys that took what was there, without a search

    def order(self, hashed: int) -> list[int]:
        """All workers, as a key with that hash goes through them."""
        upper, lower = divmod(hashed, TWO_TO_32)
        home = upper * self.n // TWO_TO_32
        steps = [s for s in range(1, max(2, self.n)) if math.gcd(s, self.n) == 1]
        step = steps[lower * len(steps) // TWO_TO_32]
        return [(home + j * step) % self.n for j in range(self.n)]

    def route(self, keys: Sequence[int], weights: Sequence[float] | None = None) -> list[int]:
        amounts = [1.0] * len(keys) if weights is None else list(weights)
        n_blocks = -(-len(keys) // BLOCK)
        out = []
        for block in range(n_blocks):
            part = slice(len(keys) * block // n_blocks, len(keys) * (block + 1) // n_blocks)
            out += self.route_block(keys[part], amounts[part])
        return out

    def route_block(self, keys: Sequence[int], amounts: Sequence[float]) -> list[int]:
        found: list[Key] = []
        which: list[Key] = []  # by record
        table: dict[int, Key] = {}
        total = 0.0
        n_steps = 16 * len(keys)
        for name, amount in zip(keys, amounts, strict=True):
            hashed = seeded(name, self.seed)
            at = hashed % TABLE
            while at in table and table[at].name != name and n_steps > 0:
                at = (at + 1) % TABLE
                n_steps -= 1
            self.n_unfound += at in table and table[at].name != name
            if at not in table or table[at].name != name:
                table[at] = Key(name, hashed, self.order(hashed))
                found.append(table[at])
            which.append(table[at])
            table[at].weight += amount
            total += amount
        if total / len(keys) > 0:
            self.scale = total / len(keys)
        self.remember(found, len(keys), total)
        for key in found:
            key.left = key.weight
        self.place(found, len(keys), total)
        out = []
        for key, amount in zip(which, amounts, strict=True):
            pieces = key.pieces
            while pieces[0][1] < 0.5 * amount and len(pieces) > 1:
                pieces.pop(0)
            pieces[0][1] -= amount
            worker = int(pieces[0][0])
            self.levels[worker] += amount * self.costs[worker]
            out.append(worker)
        self.weight += total
        self.records += len(keys)
        self.blocks += 1
        return out

    # What is known of keys

    def remember(self, found: list[Key], n_records: int, total: float) -> None:
        if self.since >= 64 * self.n:
            self.unit /= 0.8
            if self.unit >= 1e150:
                for bucket in self.buckets:
                    for counter in bucket:
                        counter.count /= self.unit
                self.unit = 1.0
            self.faded *= 0.8
            self.since = 0
        self.since += n_records
        self.faded += total
        share = total / self.n
        to_block = total / (self.faded * self.unit) if total > 0 else 0.0
        for key in found:
            key.estimate = key.weight
            key.is_heavy = key.weight >= max(4 * self.scale, share / 16)
            if key.weight < max(share / 64, min(2 * self.scale, share / 4)) or key.weight == 0:
                continue
            bucket = self.buckets[key.hashed % len(self.buckets)]
            counter = next((c for c in bucket if c.count > 0 and c.key == key.name), None)
            if counter is None:
                self.offer(key, bucket)
                continue
            counter.count += key.weight * self.unit
            key.estimate = counter.count * to_block
            key.is_heavy = key.estimate >= share / 16

    def offer(self, key: Key, bucket: list[Counter]) -> None:
        amount = key.weight * self.unit
        if key.weight < 2 * self.scale:
            if (key.hashed // TWO_TO_32 + self.blocks) % 8:
                return
            amount *= 8
        chance = (mix((key.hashed + self.blocks * GOLDEN) % TWO_TO_64) >> 11) / 2**53
        smallest = min(bucket, key=lambda counter: counter.count)  # the first of the smallest
        if chance * (smallest.count + amount) < amount:
            smallest.key = key.name
            smallest.count += amount

    def rank(self, key: Key) -> tuple[int, int]:
        mantissa, exponent = math.frexp(min(key.estimate / self.scale, 1e9))
        half_octaves = 2 * exponent + (mantissa >= 0.75)
        return max(-16, min(half_octaves, 47)), key.hashed // 2**22 % 1024

    # Where keys go

    def place(self, keys: list[Key], n_records: int, total: float) -> None:
        content = total
        for level, cost in zip(self.levels, self.costs, strict=True):
            content += level / cost
        horizon = max(self.expected * self.scale, self.weight + total)
        above = max(self.tolerance * horizon / self.n, self.scale)
        limit = content / self.n + above + CLOSE * self.scale
        rooms = [
            (limit - level) / cost for level, cost in zip(self.levels, self.costs, strict=True)
        ]
        homes = [0.0] * self.n
        for key in keys:
            homes[key.order[0]] += 0.0 if key.is_heavy else key.weight
        crowded = [worker for worker in range(self.n) if homes[worker] > rooms[worker]]
        for worker in crowded:
            homes[worker] = 0.0
        listed = []
        for key in keys:
            if key.is_heavy or key.order[0] in crowded:
                listed.append(key)
            else:
                self.give(key, key.order[0], key.weight)
        listed.sort(key=self.rank)
        rest = 0.0
        for key in listed:
            home = key.order[0]
            if not key.is_heavy:
                size = key.weight
                room = rooms[home] - homes[home]
                if size > room:
                    size = max(0.0, math.floor(room / self.scale) * self.scale)
                if size > 0 or key.weight == 0:
                    self.give(key, home, size)
                    homes[home] += size
                rest += key.weight - size
            else:
                rest += key.weight
        if rest > 0:
            levels = [self.levels[w] + homes[w] * self.costs[w] for w in range(self.n)]
            bits = (self.seed + sum(key.hashed for key in keys)) % TWO_TO_64
            first = mix(bits) // TWO_TO_32 * self.n // TWO_TO_32
            self.fill_up(listed, n_records, self.shares(levels, rest, first))

    def give(self, key: Key, worker: int, size: float) -> None:
        key.pieces.append([worker, size])
        key.left -= size

    def shares(self, levels: list[float], rest: float, first: int) -> list[float]:
        below = list(range(self.n))
        while True:
            content, capacity = rest, 0.0
            for worker in below:
                content += levels[worker] / self.costs[worker]
                capacity += 1 / self.costs[worker]
            level = content / capacity
            still = [worker for worker in below if levels[worker] < level]
            if still == below or not still:
                break
            below = still
        shares = [0.0] * self.n
        carried = 0.0
        for j in range(self.n):
            worker = (first + j) % self.n
            exact = max(0.0, (level - levels[worker]) / self.costs[worker] / self.scale)
            whole = math.floor(exact + CLOSE)
            carried += max(0.0, exact - whole)
            if carried >= 1 - CLOSE:
                whole += 1
                carried -= 1
            shares[worker] = whole * self.scale
        return shares

    def fill_up(self, listed: list[Key], n_records: int, shares: list[float]) -> None:
        least = CLOSE * self.scale
        n_steps = 16 * (n_records + self.n)
        for key in listed:
            if key.pieces and key.left <= least:
                continue
            for position, worker in enumerate([*key.order, *range(self.n)]):
                if position < self.n and n_steps <= 0:
                    self.n_unsearched += 1
                    continue
                if shares[worker] > least:
                    size = min(key.left, shares[worker])
                    self.give(key, worker, size)
                    shares[worker] -= size
                    if key.left <= least:
                        break
                n_steps -= 1 if position < self.n else 0
            if not key.pieces:
                self.give(key, key.order[0], key.weight)
