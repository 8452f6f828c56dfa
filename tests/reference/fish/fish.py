"""FISH as its three algorithms say it: a dictionary of counters, lists, a walk round the ring.

Merging is what the paper does not have: sources share counts and M_k, and each keeps its own waits.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

from reference.d_choices import fewest_choices
from reference.fish.worker_selection import TICKS, least_waiting
from reference.kernels.hashing import GOLDEN, TWO_TO_64, mix, seeded, seeds
from reference.kernels.ring import ReferenceRing
from reference.kernels.space_saving import Entry, SpaceSavingReference


class FishReference:
    """One source. Waiting times are whole ticks, 1/1024 of the fastest worker's time per record."""

    def __init__(
        self,
        n_workers: int,
        seed: int,
        *,
        source: int = 0,
        seconds: list[float] | None = None,
        alpha: Fraction = Fraction(1, 5),
        epoch: int = 1_000,
        capacity: int = 1_000,
        hot_factor: float = 0.25,
        classification: str = "chk",
        heuristic: bool = True,
        interval: float = 10.0,
        seconds_per_record: float = 0.001,
        utilisation: float = 0.9,
        ring: bool = True,
        virtual_nodes: int = 128,
    ) -> None:
        self.n_workers = n_workers
        self.alpha, self.epoch, self.epsilon = alpha, epoch, 1e-4
        self.theta = Fraction(hot_factor) / n_workers
        self.classification = classification
        self.hash_seed, ring_seed = seeds(seed, 2)
        n_points = [virtual_nodes] * n_workers
        self.ring = ReferenceRing(n_points, seeds(ring_seed, 1)[0]) if ring else None
        self.summary = SpaceSavingReference(capacity)
        self.m: dict[int, int] = {}  # M_k
        self.n_in_epoch = 0
        self.n_since_merge = 0
        self.d_min = n_workers if classification == "w-choices" else min(2, n_workers)
        self.seconds = seconds or [seconds_per_record] * n_workers
        self.tick = min(self.seconds) / TICKS
        self.waits = [0] * n_workers
        self.step = 1.0 / (utilisation * sum(1.0 / s for s in self.seconds))
        self.interval = interval if heuristic else math.inf
        self.t_pri = 0.0
        self.n_since = 0
        self.turn = int(n_workers * (source * 0.6180339887498949 % 1.0))

    def weight(self) -> Fraction:
        """What frequencies are relative to: a long faded stream, or all records if none fade."""
        if self.alpha < 1:
            return self.epoch / (1 - self.alpha)
        return max(Fraction(self.epoch), Fraction(self.summary.total))

    def hot_counts(self) -> list[Fraction]:
        counts = [entry.count for entry in self.summary.entries.values()]
        return [count for count in counts if count > self.theta * self.weight()]

    def end_epoch(self) -> None:
        """Alg. 1, l. 5–7."""
        self.find_d_min()
        self.summary.decay(self.alpha)
        self.n_in_epoch = 0

    def find_d_min(self) -> None:
        shares = [float(count / self.summary.total) for count in self.hot_counts()]
        if self.classification == "w-choices":
            self.d_min = self.n_workers
        elif self.classification == "d-choices":
            self.d_min = min(self.n_workers, fewest_choices(shares, self.n_workers, self.epsilon))
        else:
            self.d_min = min(2, self.n_workers)
            while self.d_min < self.n_workers and not self.all_fit(shares, self.d_min):
                self.d_min += 1

    def all_fit(self, shares: list[float], d: int) -> bool:
        n = self.n_workers
        covered = 1 - Fraction(n - 1, n) ** (len(shares) * d)
        hot = sum(map(Fraction, shares))
        landing = hot + covered**2 * max(0, 1 - hot)
        return landing <= covered * (1 + n * Fraction(self.epsilon))

    def n_candidates(self, key: int) -> int:
        """Alg. 2."""
        count = self.summary.entries[key].count
        if not count > self.theta * self.weight():
            return 2
        if self.classification != "chk":
            return self.d_min
        top = max(entry.count for entry in self.summary.entries.values())
        index = 0
        while count * 2 ** (index + 1) <= top:
            index += 1
        d = max(self.n_workers // 2**index, self.d_min)
        self.m[key] = max(d, self.m.get(key, 0))
        return self.m[key]

    def candidates(self, key: int, d: int) -> list[int]:
        hashed = seeded(key, self.hash_seed)
        if self.ring is not None:
            return self.ring.candidates(hashed, d)
        hashes = [hashed, *(mix((hashed + j * GOLDEN) % TWO_TO_64) for j in range(1, d))]
        return [own % self.n_workers for own in hashes[:d]]

    def estimate(self) -> None:
        """Alg. 3, l. 4–10."""
        elapsed = self.n_since * self.step
        if elapsed > self.interval:
            done = math.floor((self.t_pri + elapsed - self.t_pri) / self.tick)
            self.turn = least_waiting(self.waits, range(self.n_workers), self.turn)
            self.waits = [max(0, wait - done) for wait in self.waits]
            self.t_pri += elapsed
            self.n_since = 0

    def send(self, worker: int) -> int:
        self.waits[worker] += round(self.seconds[worker] / self.tick)
        self.n_since += 1
        return worker

    def route_one(self, key: int) -> int:
        if self.n_in_epoch == self.epoch:
            self.end_epoch()
        self.estimate()
        self.n_in_epoch += 1
        self.n_since_merge += 1
        self.summary.offer(key, 1)
        self.m = {k: m for k, m in self.m.items() if k in self.summary.entries}
        count = self.summary.entries[key].count
        is_hot = count > self.theta * self.weight()
        d = self.n_candidates(key)
        if not is_hot:
            first, *others = self.candidates(key, 2)
            best = first
            if others and self.waits[others[0]] < self.waits[first]:
                best = others[0]
            return self.send(best)
        allowed = range(self.n_workers) if d >= self.n_workers else self.candidates(key, d)
        return self.send(least_waiting(self.waits, allowed, self.turn))

    def route(self, keys: Iterable[int]) -> list[int]:
        return [self.route_one(int(key)) for key in keys]


def merged(sources: Sequence[FishReference]) -> FishReference:
    """What all sources share: counts are means by the records since the last merge."""
    weights = [source.n_since_merge for source in sources]
    if not any(weights):
        weights = [1] * len(sources)

    def mean(values: list[Fraction]) -> Fraction:
        total = sum((w * v for w, v in zip(weights, values, strict=True)), Fraction(0))
        return Fraction(total) / sum(weights)

    shared = copy.deepcopy(sources[0])
    parts = [source.summary for source in sources]
    rows = []
    for key in {key for part in parts for key in part.entries}:
        found = [p.entries.get(key, Entry(p.smallest(), p.smallest(), 0)) for p in parts]
        rows.append((mean([e.count for e in found]), mean([e.error for e in found]), key))
    rows.sort(key=lambda row: (-row[0], row[1], row[2]))
    rows = rows[: shared.summary.capacity]
    shared.summary.entries = {
        key: Entry(count, error, len(rows) - i) for i, (count, error, key) in enumerate(rows)
    }
    shared.summary.clock = len(rows)
    shared.summary.total = mean([Fraction(part.total) for part in parts])
    shared.n_in_epoch = max((s.n_since_merge, s.n_in_epoch) for s in sources)[1]
    shared.n_since_merge = 0
    shared.m = {}
    for key in shared.summary.entries:
        granted = max(source.m.get(key, 0) for source in sources)
        if granted:
            shared.m[key] = granted
    if shared.summary.entries:
        shared.find_d_min()
    return shared


def fork(shared: FishReference, own: FishReference) -> FishReference:
    """What a source continues with: the shared counts, and what it sent itself."""
    forked = copy.deepcopy(shared)
    for name in ("waits", "t_pri", "n_since", "turn"):
        setattr(forked, name, copy.copy(getattr(own, name)))
    return forked
