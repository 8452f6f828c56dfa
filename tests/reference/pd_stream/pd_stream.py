"""Pd-Stream as its two algorithms say: the window is counted, the table searched, all looked at."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable

import numpy as np
from scipy.stats import binom

from reference.kernels.hashing import seeded, seeds, two_workers


def search_probability(count: int, length: int, confidence: float, error: float = 1e-4) -> float:
    """Alg. 1: halve the interval until it is shorter than the error."""
    lower, upper = 0.0, 1.0
    middle = 0.5
    while upper - lower > error:
        middle = (upper + lower) / 2
        at_least = sum(
            math.comb(length, i) * middle**i * (1 - middle) ** (length - i)
            for i in range(count, length + 1)
        )
        if at_least < confidence:
            lower = middle
        else:
            upper = middle
    return middle


@functools.cache
def needed_workers(length: int, confidence: float, n_workers: int) -> list[int]:
    """Eq. 16 for every count, with all of Alg. 1's searches side by side and to the last digit."""
    counts = np.arange(length + 1)
    lower, upper = np.zeros(length + 1), np.ones(length + 1)
    for _ in range(60):
        middle = (lower + upper) / 2
        too_low = binom.sf(counts - 1, length, middle) < confidence
        lower, upper = np.where(too_low, middle, lower), np.where(too_low, upper, middle)
    return [0, *(math.floor(p * n_workers) for p in lower[1:])]


class PdStreamReference:
    def __init__(
        self,
        n_workers: int,
        seed: int,
        alpha: float = 4.0,
        theta: float = 2.0,
        step: int = 1,
        confidence: float = 0.99,
        count_incoming: bool = False,
        adaptive: bool = False,
    ) -> None:
        (self.seed,) = seeds(seed, 1)
        self.loads = [0] * n_workers
        self.window: list[int] = []
        self.step = step
        self.pending: list[int] = []
        self.entries: dict[int, set[int]] = {}
        self.confidence = confidence
        self.count_incoming = count_incoming
        self.alpha = alpha
        self.shortest = max(1, round(alpha * n_workers / theta))
        self.last_stage = 2 if adaptive else 0
        self.stage = 0
        self.until = self.shortest

    @property
    def length(self) -> int:
        return self.shortest * 2**self.stage

    @property
    def hot_from(self) -> int:
        expected = self.alpha * 2**self.stage
        adjusted = math.ceil(expected - math.sqrt(expected))
        return max(2, adjusted) if self.last_stage else 2

    def adapt(self) -> None:
        balanced = max(self.loads) - min(self.loads) <= 4
        self.stage = min(self.stage + 1, self.last_stage) if balanced else 0
        self.window = self.window[-self.length :]
        self.forget()
        self.until = self.length

    def forget(self) -> None:
        self.entries = {key: own for key, own in self.entries.items() if key in self.window}

    def candidates(self, key: int) -> tuple[int, int]:
        return two_workers(seeded(key, self.seed), len(self.loads))

    def lightest(self, workers: Iterable[int], start: int) -> int:
        """Of equals, the first going round from `start`."""
        n_workers = len(self.loads)
        return min(workers, key=lambda w: (self.loads[w], (w - start) % n_workers))

    def route(self, key: int) -> int:
        if self.last_stage:
            if self.until == 0:
                self.adapt()
            self.until -= 1
        count = self.window.count(key)
        if self.count_incoming and self.step == 1:
            count = [*self.window, key][-self.length :].count(key)
        elif self.count_incoming:
            count = min(count + 1, self.length)
        first, second = self.candidates(key)
        if count < self.hot_from:
            worker = self.lightest((first, second), first)
        else:
            own = self.entries.setdefault(key, {first, second})
            worker = self.lightest(own, first)
            needed = needed_workers(self.length, self.confidence, len(self.loads))[count]
            if needed > len(own):
                lightest = self.lightest(range(len(self.loads)), first)
                if self.loads[lightest] < self.loads[worker]:
                    own.add(lightest)
                    worker = lightest
        self.loads[worker] += 1
        self.pending.append(key)
        if len(self.pending) == self.step:
            for entering in self.pending:
                self.window = [*self.window, entering][-self.length :]
                self.forget()
            self.pending = []
        return worker


def route(keys: Iterable[int], n_workers: int, seed: int, **parameters: float | bool) -> list[int]:
    source = PdStreamReference(n_workers, seed, **parameters)  # type: ignore[arg-type]
    return [source.route(int(key)) for key in keys]
