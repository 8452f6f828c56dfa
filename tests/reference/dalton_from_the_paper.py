"""Dalton and its cooperating partitioners, written from the paper alone: slow, obvious, no arrays.

Zapridou, Mytilinis, Ailamaki: "Dalton: Learned Partitioning for Distributed Data Streams", sections
3.2, 3.3 and 4.1, Algorithms 1 and 2. Choices where the paper is silent or contradicts itself are
marked CHOICE. The paper's combiner is a worker, its tuple a record, its partitioner a source.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

#: Section 3.2, "Initial values": the smallest possible reward.
UNKNOWN = -2.0


def hash_worker(key: int, seed: int, n_workers: int) -> int:
    mixed = (key * 0x9E3779B97F4A7C15 + seed * 0xD1B54A32D192ED03 + 1) % 2**64
    mixed = ((mixed ^ (mixed >> 31)) * 0xBF58476D1CE4E5B9) % 2**64
    return ((mixed ^ (mixed >> 29)) >> 11) % n_workers


class Statistics:
    """Which keys are hot: counts in a tumbling window of `size` records (section 3.3)."""

    def __init__(self, n_workers: int, size: int) -> None:
        self.n_workers, self.size = n_workers, size
        self.n_records = 0
        self.counts: Counter[int] = Counter()
        self.hot_until: dict[int, int] = {}  # key -> last window in which it is hot

    def observe(self, key: int) -> bool:
        """Drop keys whose time is over, count the record, and tell whether its key is hot."""
        window = self.n_records // self.size
        if self.n_records % self.size == 0:
            self.counts.clear()
            self.hot_until = {k: last for k, last in self.hot_until.items() if last >= window}
        self.n_records += 1
        self.counts[key] += 1
        # Algorithm 1, line 3. The load of the previous window is the size of every window.
        # CHOICE: the first window, which has no previous one, uses the same size.
        if self.counts[key] * self.n_workers >= self.size:
            self.hot_until[key] = window + 1
        return key in self.hot_until

    def copy(self) -> Statistics:
        other = Statistics(self.n_workers, self.size)
        other.n_records = self.n_records
        other.counts, other.hot_until = Counter(self.counts), dict(self.hot_until)
        return other


class Window:
    """The last `n_slides` slides: the load of each worker, the workers of each key (section 3.3).

    CHOICE: the newest slide, still incomplete, is one of the `n_slides`.
    CHOICE: fragmentation has the window of the loads. Section 3.4 would restart it with each
    micro-batch, but then the place of a cut would change the routes of a single source.
    """

    def __init__(self, n_workers: int, slide: int, n_slides: int) -> None:
        self.n_workers, self.slide, self.n_slides = n_workers, slide, n_slides
        self.n_records = 0
        self.newest = -1
        self.slides: deque[list[tuple[int, int, int]]] = deque()  # (key, worker, weight)
        self.loads = [0] * n_workers
        self.copies: dict[int, Counter[int]] = {}  # key -> worker -> weight of its records there

    def place(self, key: int, worker: int, weight: int = 1) -> None:
        """Remove expired slides, then add a record that stands for `weight` records."""
        while self.newest < self.n_records // self.slide:
            self.newest += 1
            self.slides.append([])
            if len(self.slides) > self.n_slides:
                self._expire(self.slides.popleft())
        self.n_records += weight
        self.slides[-1].append((key, worker, weight))
        self.loads[worker] += weight
        self.copies.setdefault(key, Counter())[worker] += weight

    def _expire(self, records: list[tuple[int, int, int]]) -> None:
        for key, worker, weight in records:
            self.loads[worker] -= weight
            self.copies[key][worker] -= weight
            if self.copies[key][worker] == 0:
                del self.copies[key][worker]
                if not self.copies[key]:
                    del self.copies[key]

    def reward(self, key: int, worker: int, load_weight: float) -> float:
        """Equations 3 and 4, after the record has been placed."""
        load, mean = self.loads[worker], sum(self.loads) / self.n_workers
        imbalance = (load - mean) / max(load, mean)
        fragmentation = len(self.copies[key]) / self.n_workers
        return -(load_weight * imbalance + (1 - load_weight) * fragmentation)

    def copy(self) -> Window:
        other = Window(self.n_workers, self.slide, self.n_slides)
        other.n_records, other.newest = self.n_records, self.newest
        other.slides = deque(list(records) for records in self.slides)
        other.loads = list(self.loads)
        other.copies = {key: Counter(workers) for key, workers in self.copies.items()}
        return other


@dataclass
class Knowledge:
    """What a source decides by, and what all sources share after a synchronisation."""

    statistics: Statistics
    window: Window
    q: dict[int, list[float]]  # key -> estimated reward of each worker

    def copy(self) -> Knowledge:
        rows = {key: list(row) for key, row in self.q.items()}
        return Knowledge(self.statistics.copy(), self.window.copy(), rows)


@dataclass
class Report:
    """The SYNC message of a source: what it did since its last one, and its Q-table.

    The paper sends the number of records and the most frequent keys. A slow oracle sends the
    records themselves, so that the reducer need not estimate anything.
    """

    routed: list[tuple[int, int]]  # (key, worker), in order
    q: dict[int, list[float]]
    n_rewards: Counter[int]


class Partitioner:
    """One source: Algorithm 1, and the source's part of Algorithm 2."""

    def __init__(
        self,
        n_workers: int,
        seed: int,
        source: int,
        *,
        learning_rate: float = 0.1,
        exploration: float = 0.1,
        load_weight: float = 0.5,
        slide: int,
        n_slides: int,
        stats_window: int,
    ) -> None:
        self.n_workers, self.seed = n_workers, seed
        self.learning_rate, self.exploration = learning_rate, exploration
        self.load_weight = load_weight
        self.random = Random(f"{seed} {source}")
        statistics = Statistics(n_workers, stats_window)
        self.go_on_with(Knowledge(statistics, Window(n_workers, slide, n_slides), {}), n_sources=1)

    def go_on_with(self, common: Knowledge, n_sources: int) -> None:
        """Go on from an answer of the reducer (Algorithm 2, lines 17-20).

        No record comes between a report and its answer, so AWAIT buffers nothing, and a source
        keeps nothing of its own but its random numbers. A source that paused is like any other.
        """
        self.knowledge = common.copy()
        self.n_sources = n_sources
        self.routed: list[tuple[int, int]] = []
        self.n_rewards: Counter[int] = Counter()

    def route(self, keys: Iterable[int]) -> list[int]:
        return [self._route(key) for key in keys]

    def _route(self, key: int) -> int:
        statistics, window, q = self.knowledge.statistics, self.knowledge.window, self.knowledge.q
        # CHOICE: between two answers, a source counts its own records once each, in windows of
        # `stats_window` of them. So no key becomes hot before 1/n of a full window has really been
        # seen, and a source with few records expires nothing.
        hot = statistics.observe(key)
        for expired in q.keys() - statistics.hot_until.keys():
            del q[expired], self.n_rewards[expired]
        worker = self._choose(key) if hot else hash_worker(key, self.seed, self.n_workers)
        # CHOICE: in the window of loads, a record of one of P sources stands for P records: the
        # others are taken to do the same. With weight 1 each source would repair the whole of an
        # imbalance that all of them see, and together they would repair it P times.
        window.place(key, worker, weight=self.n_sources)
        if hot:
            reward = window.reward(key, worker, self.load_weight)
            q[key][worker] += self.learning_rate * (reward - q[key][worker])
            self.n_rewards[key] += 1
        self.routed.append((key, worker))
        return worker

    def _choose(self, key: int) -> int:
        row = self.knowledge.q.setdefault(key, [UNKNOWN] * self.n_workers)
        if self.random.random() < self.exploration:
            return self.random.randrange(self.n_workers)
        # CHOICE: of equal estimates, the first from the key's hash worker on.
        first = hash_worker(key, self.seed, self.n_workers)
        order = [(first + i) % self.n_workers for i in range(self.n_workers)]
        return max(order, key=row.__getitem__)

    def report(self) -> Report:
        return Report(self.routed, self.knowledge.q, self.n_rewards)


def interleaved(reports: Sequence[Report]) -> list[tuple[int, int]]:
    """Merge the records of all sources into one stream.

    CHOICE: every source has a steady pace from the start of the micro-batch to its end.
    """
    timed = [
        ((2 * i + 1) / (2 * len(report.routed)), source, record)
        for source, report in enumerate(reports)
        for i, record in enumerate(report.routed)
    ]
    return [record for _, _, record in sorted(timed)]


def merge(common: Knowledge, reports: Sequence[Report]) -> Knowledge:
    """Build what all sources know after a micro-batch: the QtableReducer of section 4.1.

    Statistics and loads are those of one partitioner that saw all records and made these choices.
    So the hot keys are those of all sources together, and each has a row until it expires: also a
    key that no source found hot by itself. A key that is hot for one source only loses its row.
    """
    after = common.copy()
    for key, worker in interleaved(reports):
        after.statistics.observe(key)
        after.window.place(key, worker)
    after.q = {key: merged_row(key, common, reports) for key in after.statistics.hot_until}
    return after


def merged_row(key: int, common: Knowledge, reports: Sequence[Report]) -> list[float]:
    """Average the rows of the sources, weighted by the rewards that each received for the key.

    CHOICE: the weights add up to 1. The printed formula divides by the load of all keys and by the
    number of sources; its values would shrink towards 0, above most rewards, each time.
    The text says "weighted average", and "proportional to the number of rewards".
    CHOICE: a key without rewards keeps its row; one without a row starts anew.
    """
    n_workers = common.window.n_workers
    n_rewards = sum(report.n_rewards[key] for report in reports)
    if n_rewards == 0:
        return list(common.q.get(key, [UNKNOWN] * n_workers))
    weighted = [(r.n_rewards[key] / n_rewards, r.q[key]) for r in reports if r.n_rewards[key]]
    return [sum(weight * row[worker] for weight, row in weighted) for worker in range(n_workers)]


def route_micro_batches(
    batches: Sequence[Sequence[Sequence[int]]], n_workers: int, seed: int, **parameters: Any
) -> list[list[list[int]]]:
    """Route `batches[b][s]`, the keys of source s in micro-batch b. All report after each batch."""
    sources: dict[int, Partitioner] = {}
    common = Partitioner(n_workers, seed, 0, **parameters).knowledge
    out = []
    for batch in batches:
        for source in range(len(batch)):
            if source not in sources:
                sources[source] = Partitioner(n_workers, seed, source, **parameters)
            sources[source].go_on_with(common, n_sources=len(batch))
        out.append([sources[source].route(keys) for source, keys in enumerate(batch)])
        common = merge(common, [sources[source].report() for source in range(len(batch))])
    return out
