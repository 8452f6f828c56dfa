"""Dalton: every quantity recomputed from lists of records; only the Q-table is remembered."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

from reference.hashing import GOLDEN, TWO_TO_64, mix, seeded, seeds, to_worker

LEAST = -2.0


def draw(seed: int, counter: int) -> int:
    return mix((seed + mix((counter * GOLDEN + GOLDEN) % TWO_TO_64)) % TWO_TO_64)


class Row:
    def __init__(self, n_workers: int) -> None:
        self.q = [LEAST] * n_workers
        self.kept: list[tuple[int, float]] = []  # (worker, reward) while waiting
        self.records: list[tuple[int, int]] = []  # (slide, worker)


class ReferenceDalton:
    """One source. Counts of keys are exact."""

    def __init__(
        self,
        n_workers: int,
        seed: int,
        *,
        source: int = 0,
        learning_rate: float = 0.1,
        exploration: float = 0.1,
        load_weight: float = 0.5,
        slide: int = 10_000,
        n_slides: int = 10,
        stats_window: int = 10_000,
        max_split: int | None = None,
        by_batch: bool = False,
        hybrid: bool = True,
    ) -> None:
        self.n = n_workers
        self.hash_seed = seeds(seed, 1)[0]
        self.draw_seed = seeds(seed, 2 + source)[-1]
        self.rate, self.exploration, self.weight = learning_rate, exploration, load_weight
        self.slide, self.n_slides, self.stats_window = slide, n_slides, stats_window
        self.by_batch, self.hybrid = by_batch, hybrid
        self.most = n_workers if max_split is None else min(max_split, n_workers)
        self.limit = n_workers if max_split is None else min(2, self.most)
        self.rows: dict[int, Row] = {}
        self.hot_in: dict[int, int] = {}  # the last statistics window in which a key was hot
        self.counts: Counter[int] = Counter()
        self.n_counted = 0
        self.stats = 0  # number of the statistics window
        self.threshold = stats_window / n_workers if hybrid else 0.0
        self.slides: deque[list[int]] = deque([[]], maxlen=n_slides)
        self.epoch = 0  # slide, or batch, by which replicas are counted
        self.n_routed = 0

    def home(self, key: int) -> int:
        return to_worker(seeded(key, self.hash_seed), self.n)

    def workers_of(self, row: Row) -> list[int]:
        reach = 1 if self.by_batch else self.n_slides
        return sorted({w for epoch, w in row.records if epoch > self.epoch - reach})

    def best(self, key: int) -> int:
        q = self.rows[key].q
        order = [(self.home(key) + step) % self.n for step in range(self.n)]
        return max(order, key=lambda worker: q[worker])  # the first of equals

    def next_stats_window(self) -> None:
        self.stats += 1
        self.counts.clear()
        self.n_counted = 0
        for key in list(self.rows):
            if self.hot_in[key] < self.stats - 1:
                del self.rows[key], self.hot_in[key]
        widths = [len(self.workers_of(row)) for row in self.rows.values()]
        full = sum(width >= self.limit for width in widths)
        if widths and full >= 0.7 * len(widths) and self.limit < self.most:
            self.limit += 1

    def observe(self, key: int) -> None:
        self.counts[key] += 1
        self.n_counted += 1
        if self.counts[key] > self.threshold:
            if key not in self.rows:
                self.rows[key] = Row(self.n)
                if self.counts[key] > 1 and not self.by_batch:
                    self.rows[key].records.append((self.epoch, self.home(key)))
            self.hot_in[key] = self.stats

    def expire(self) -> None:
        if len(self.slides[-1]) == self.slide:
            self.slides.append([])
            if not self.by_batch:
                self.epoch += 1

    def explore(self, row: Row, bits: int) -> int:
        own = self.workers_of(row)
        if len(own) < self.limit:
            return to_worker(bits, self.n)
        return own[to_worker(bits, len(own))]

    def send(self, key: int) -> int:
        bits = draw(self.draw_seed, self.n_routed)
        self.n_routed += 1
        if key not in self.rows:
            self.slides[-1].append(self.home(key))
            return self.home(key)
        row = self.rows[key]
        if (bits >> 11) / 2**53 < self.exploration:
            worker = self.explore(row, mix(bits))
        else:
            worker = self.best(key)
        self.slides[-1].append(worker)
        row.records.append((self.epoch, worker))
        placed = [w for slide in self.slides for w in slide]
        load, total = self.n * placed.count(worker), len(placed)
        imbalance = (load - total) / max(load, total)
        reward = -(
            self.weight * imbalance + (1.0 - self.weight) * (len(self.workers_of(row)) / self.n)
        )
        row.q[worker] += self.rate * (reward - row.q[worker])
        return worker

    def route(self, keys: Iterable[int]) -> list[int]:
        keys = [int(key) for key in keys]
        if self.by_batch:
            return self.route_batch(keys)
        out = []
        for key in keys:
            if self.n_counted == self.stats_window:
                self.next_stats_window()
            self.expire()
            self.observe(key)
            out.append(self.send(key))
        return out

    def route_batch(self, keys: list[int]) -> list[int]:
        if not keys:
            return []
        self.next_stats_window()
        self.epoch += 1
        if self.hybrid:
            self.threshold = len(keys) / self.n
        for key in keys:
            self.observe(key)
        out = []
        for key in keys:
            self.expire()
            out.append(self.send(key))
        return out


def weighted_mean(rows: list[tuple[float, list[float]]]) -> list[float]:
    """The mean of rows of Q-values by how often each source met the key."""
    total = sum(weight for weight, _ in rows)
    return [
        sum(weight * q[worker] for weight, q in rows) / total for worker in range(len(rows[0][1]))
    ]
