"""Dalton: counts by dictionaries, windows by lists; only the Q-table is remembered."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

from reference.kernels.hashing import GOLDEN, TWO_TO_64, mix, seeded, seeds, to_worker
from reference.merges import Merge

LEAST = -2.0
FOR_EVER = 2**62


def draw(seed: int, counter: int) -> int:
    return mix((seed + mix((counter * GOLDEN + GOLDEN) % TWO_TO_64)) % TWO_TO_64)


class Row:
    """A key that is watched: in the table, hot or not."""

    def __init__(self, n_workers: int, taken: int) -> None:
        self.q = [LEAST] * n_workers
        self.rewards: list[tuple[int, float]] = []  # (worker, reward) since the last message
        self.records: list[tuple[int, int]] = []  # (slide, worker)
        self.taken = taken  # the statistics window in which it got its row
        self.frequent = -1  # the last one in which it had enough records for a row
        self.until = -1  # the last one in which it is hot
        self.shared = 0.0  # faded records at all sources
        self.deadline = 0


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
        averaging: str = "rewards",
        share_loads: bool = True,
        by_batch: bool = False,
        hybrid: bool = True,
    ) -> None:
        self.averaging = averaging
        self.n = n_workers
        self.hash_seed = seeds(seed, 1)[0]
        self.draw_seed = seeds(seed, 2 + source)[-1]
        self.rate, self.exploration, self.weight = learning_rate, exploration, load_weight
        self.slide, self.n_slides, self.stats_window = slide, n_slides, stats_window
        self.by_batch, self.hybrid, self.share_loads = by_batch, hybrid, share_loads
        self.most = n_workers if max_split is None else min(max_split, n_workers)
        self.limit = n_workers if max_split is None else min(2, self.most)
        self.rows: dict[int, Row] = {}
        self.counts: Counter[int] = Counter()  # of this statistics window
        self.before: Counter[int] = Counter()  # of the one before
        self.n_counted = self.n_before = 0  # records in them
        self.stats = 0  # number of the statistics window
        self.watch_above = stats_window / n_workers if hybrid else 0.0
        self.hot_above = self.watch_above
        self.scale = 1.0
        self.slides = deque([[0] * n_workers for _ in range(n_slides)], maxlen=n_slides)
        self.in_slide = 0
        self.epoch = 0  # slide, or batch, by which replicas are counted
        self.n_routed = 0
        # What is new since the last message, and what all sources knew at the last merge.
        self.new: Counter[int] = Counter()
        self.n_new = self.n_in_message = 0
        self.sent = [0] * n_workers
        self.waiting = False
        self.merges: list[Merge] = []
        self.own = self.cross = self.square = 0.0
        self.of_all = [0.0] * n_workers

    def home(self, key: int) -> int:
        return to_worker(seeded(key, self.hash_seed), self.n)

    def is_hot(self, key: int) -> bool:
        return key in self.rows and self.rows[key].until >= self.stats

    def workers_of(self, row: Row) -> list[int]:
        reach = 1 if self.by_batch else self.n_slides
        return sorted({w for epoch, w in row.records if epoch > self.epoch - reach})

    def best(self, key: int) -> int:
        q = self.rows[key].q
        order = [(self.home(key) + step) % self.n for step in range(self.n)]
        return max(order, key=lambda worker: q[worker])  # the first of equals

    def dealt(self, key: int, bits: int) -> int:
        """Of two workers that are drawn among the nearly best, the one with less load."""
        q = self.rows[key].q
        least = q[self.best(key)] - min(self.scale / 32, 2.0) * self.rate
        order = [(self.home(key) + step) % self.n for step in range(self.n)]
        alike = [worker for worker in order if q[worker] >= least]
        drawn = sorted(to_worker(word, len(alike)) for word in (bits, mix(bits)))
        return min(
            (alike[place] for place in drawn),
            key=lambda worker: sum(slide[worker] for slide in self.slides),
        )

    def next_stats_window(self) -> None:
        for key, row in self.rows.items():
            if self.counts[key] > self.watch_above:
                row.frequent = self.stats
        self.stats += 1
        self.before, self.counts = self.counts, Counter()
        self.n_before, self.n_counted = self.n_counted, 0
        for key, row in list(self.rows.items()):
            if row.until < self.stats and row.frequent < self.stats - 1:
                del self.rows[key]
        widths = [len(self.workers_of(row)) for key, row in self.rows.items() if self.is_hot(key)]
        full = sum(width >= self.limit for width in widths)
        if widths and full >= 0.7 * len(widths) and self.limit < self.most:
            self.limit += 1

    def observe(self, key: int) -> None:
        self.counts[key] += 1
        self.n_counted += 1
        self.new[key] += 1
        self.n_new += 1
        if key not in self.rows and self.counts[key] > self.watch_above:
            self.rows[key] = Row(self.n, self.stats)
        row = self.rows.get(key)
        if row is not None and row.until <= self.stats and self.counts[key] > self.hot_above:
            if row.until < self.stats and self.counts[key] > 1 and not self.by_batch:
                row.records.append((self.epoch, self.home(key)))
            row.until = self.stats + 1

    def expire(self) -> None:
        if self.in_slide >= self.slide_now():
            self.slides.append([0] * self.n)
            self.in_slide = 0
            if not self.by_batch:
                self.epoch += 1

    def slide_now(self) -> int:
        if not self.share_loads:
            return self.slide
        return min(self.slide, max(min(self.slide, self.n), round(self.slide / self.scale)))

    def explore(self, row: Row, bits: int) -> int:
        own = self.workers_of(row)
        if len(own) < self.limit:
            return to_worker(bits, self.n)
        return own[to_worker(bits, len(own))]

    def place(self, worker: int) -> None:
        self.slides[-1][worker] += 1
        self.in_slide += 1
        self.sent[worker] += 1

    def send(self, key: int) -> int:
        bits = draw(self.draw_seed, self.n_routed)
        self.n_routed += 1
        if not self.is_hot(key):
            self.place(self.home(key))
            return self.home(key)
        row = self.rows[key]
        if (bits >> 11) / 2**53 < self.exploration:
            worker = self.explore(row, mix(bits))
        elif self.scale >= 1.5:
            worker = self.dealt(key, mix(bits))
        else:
            worker = self.best(key)
        self.place(worker)
        row.records.append((self.epoch, worker))
        load = self.n * sum(slide[worker] for slide in self.slides)
        total = sum(map(sum, self.slides))
        imbalance = (load - total) / max(load, total)
        reward = -(
            self.weight * imbalance + (1.0 - self.weight) * (len(self.workers_of(row)) / self.n)
        )
        row.rewards.append((worker, reward))
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
            self.watch_above = len(keys) / self.n
            self.hot_above = self.scale * self.watch_above
        for key in keys:
            self.observe(key)
        out = []
        for key in keys:
            self.expire()
            out.append(self.send(key))
        return out
