"""PStream with dictionaries and lists: every record tosses its coins, one after the other."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

from reference.kernels import distinct
from reference.kernels.hashing import GOLDEN, TWO_TO_64, mix, scaled, seeded, seeds, to_worker
from reference.merges import Merge


def draw(seed: int, counter: int) -> int:
    return mix((seed + mix((counter * GOLDEN + GOLDEN) % TWO_TO_64)) % TWO_TO_64)


def toss(coins: int, most: int) -> int:
    """t of Algorithm 1: tosses up to and with the first tails (a 1), but no more than `most`."""
    for t in range(1, most + 1):
        if coins % 2 == 1:
            return t
        coins //= 2
    return most


def lower(bits: set[int], by: int = 1) -> set[int]:
    """Shift right."""
    return {bit - by for bit in bits if bit >= by}


class Filter:
    """Two counters per key."""

    def __init__(self, n_keys: int, rate: float, seed: int) -> None:
        # Half of 1 − e^(−2 n / m) is the chance that one counter is taken; both: its square.
        self.size = math.ceil(-2 * n_keys / math.log(1 - math.sqrt(rate)))
        self.seed = seed
        self.counts: Counter[int] = Counter()

    def places(self, key: int) -> list[int]:
        hashed = seeded(key, self.seed)
        step = mix(hashed) | 1
        return [scaled((hashed + i * step) % TWO_TO_64 // 2**32, self.size) for i in range(2)]

    def contains(self, key: int) -> bool:
        return all(self.counts[place] > 0 for place in self.places(key))

    def append(self, key: int) -> None:
        self.counts.update(self.places(key))

    def delete(self, key: int) -> None:
        self.counts.subtract(self.places(key))


class Predictor:
    def __init__(
        self,
        f: float,
        seeds: tuple[int, int, int],
        least_f: float | None,
        length: int,
        time_weight: float,
        interval: float,
        floor: float | None = None,
        whole_runs: bool = False,
        until_evicted: bool = False,
    ) -> None:
        self.whole_runs, self.until_evicted = whole_runs, until_evicted
        self.hot: set[int] = set()
        filter_seed, self.coins, self.choices = seeds
        self.adaptive = least_f is not None
        self.least_f = f if least_f is None else least_f
        self.floor = self.least_f if floor is None else floor
        self.length, self.w_t, self.interval = length, time_weight, interval
        self.filter = Filter(math.ceil(1 / self.least_f), 0.01, filter_seed)
        mean_entries = 2 / (self.least_f / 2)
        self.capacity = math.ceil(mean_entries + 6 * math.sqrt(mean_entries))
        self.keys: list[int] = []  # in the order in which the synopsis holds them
        self.vectors: dict[int, set[int]] = {}  # the bits that are set
        # What a merge needs: the bits that all sources had, the new ones, and the shifts.
        self.shared: dict[int, set[int]] = {}
        self.fresh: dict[int, set[int]] = {}
        self.shifts: Counter[int] = Counter()
        self.scale = 1.0
        self.generation = self.n_told = self.n_in_message = self.n_intervals = 0
        self.v1_told = self.v2_told = 0
        self.own = self.cross = self.square = 0.0
        self.merges: list[Merge] = []
        self.waiting = False
        self.marked: set[int] = set()
        self.registers = [0] * 1024
        self.n_records = self.n_choices = 0
        self.v1 = self.v2 = 0
        self.owed = Fraction(0)
        self.n_dropped = 0
        self.set_threshold(f)

    def set_threshold(self, f: float) -> None:
        self.f = f
        p = f / 2
        self.r = max(r for r in range(64) if 2.0**-r >= p)
        self.p = Fraction(int(p * 2**32), 2**32)

    def is_hot(self, key: int) -> bool:
        return key in self.hot

    def observe(self, key: int) -> bool:
        hot = self.filter.contains(key)
        self.count_key(seeded(key, self.filter.seed))
        t = toss(draw(self.coins, self.n_records), self.r + self.length)
        self.n_records += 1
        if t > self.r:
            # Section 3.2: bit t − r − 1. The program: by the whole run, as far as there are bits.
            bit = min(t - 1, self.length - 1) if self.whole_runs else t - self.r - 1
            self.learn(key, bit)
        return hot

    def count_key(self, hashed: int) -> None:
        if self.adaptive:
            alone = distinct.registers_of([hashed], 10)
            self.registers[hashed % 1024] = max(self.registers[hashed % 1024], max(alone))

    def learn(self, key: int, bit: int) -> None:
        was_hot = self.is_hot(key)
        if key not in self.vectors and len(self.keys) < self.capacity:
            self.keys.append(key)
            self.vectors[key], self.shared[key], self.fresh[key] = set(), set(), set()
        if key in self.vectors:
            self.vectors[key].add(bit)
            self.fresh[key].add(bit)
        else:
            self.n_dropped += 1
        self.v1 += 1
        if was_hot:
            self.v2 += 1
            self.marked.add(key)
        elif len(self.vectors.get(key, ())) >= 2:
            self.hot.add(key)
            self.filter.append(key)
        self.decline()
        self.adapt_if_over()

    def decline(self) -> None:
        # In units of 2^-32, as p is.
        rate = Fraction(int(float(self.p * 2**32) * self.scale), 2**32)
        self.owed += rate * len(self.keys)
        while self.owed >= 1 and self.keys:
            self.owed -= 1
            self.n_choices += 1
            chosen = draw(self.choices, self.n_choices)
            is_own = (mix(chosen) >> 11) / 2**53 * self.scale < 1.0
            self.shift(self.keys[to_worker(chosen, len(self.keys))], is_own)
        if not self.keys:
            self.owed = Fraction(0)

    def shift(self, key: int, is_own: bool) -> None:
        was_hot = self.is_hot(key)
        self.fresh[key] = lower(self.fresh[key])
        if is_own:
            self.vectors[key] = lower(self.vectors[key])
            self.shared[key] = lower(self.shared[key])
            self.shifts[key] += 1
        # Algorithm 1, line 21: with fewer than two bits. Section 5: when it is kicked out.
        if was_hot and len(self.vectors[key]) < (1 if self.until_evicted else 2):
            self.hot.remove(key)
            self.filter.delete(key)
        if not self.vectors[key]:
            del self.vectors[key], self.shared[key], self.fresh[key]
            self.shifts.pop(key, None)
            self.marked.discard(key)
            last = self.keys.pop()
            if last != key:
                self.keys[self.keys.index(key)] = last

    def adapt_if_over(self) -> None:
        if self.adaptive and self.v1 > 0 and self.v1 * self.f >= 2.0 * self.interval:
            self.adapt()

    def adapt(self) -> None:
        rare_share = 1.0 - self.v2 / self.v1
        n_keys = max(distinct.estimate(self.registers), len(self.marked), 1.0)
        f = crossing(self.f, rare_share, len(self.marked) / n_keys, self.w_t)
        self.set_threshold(min(max(f, self.floor), 1.0))
        self.v1 = self.v2 = self.v1_told = self.v2_told = 0
        self.registers = [0] * 1024
        self.n_intervals += 1
        self.marked.clear()


def crossing(f: float, rare_share: float, hot_keys: float, w_t: float) -> float:
    """Where two lines through the values at f cross, in the paper's order of operations."""
    w_s = 1.0 - w_t
    y_time, y_space = w_t * rare_share, w_s * hot_keys
    if y_time > y_space:  # from (0, 0) and (0, w_S)
        return f * w_s / (y_time - y_space + w_s)
    if y_time < y_space:  # from (1, w_T) and (1, 0)
        return 1.0 - (1.0 - f) * w_t / (y_space - y_time + w_t)
    return f


def predictor(
    n_workers: int,
    seed: int,
    source: int = 0,
    f: float | None = None,
    least_f: float | None = None,
    length: int = 16,
    time_weight: float = 0.5,
    interval: float = 1.0,
    bounded: bool = True,
    whole_runs: bool = False,
    until_evicted: bool = False,
) -> Predictor:
    _, filter_seed, coins, choices = seeds(seed, 4)
    own = (filter_seed, draw(coins, source), draw(choices, source))
    least = least_f or max(1e-6, 0.2 / n_workers)
    return Predictor(
        f or max(0.02, least),
        own,
        None if f else least,
        length,
        time_weight,
        interval,
        None if bounded else 1e-6,
        whole_runs,
        until_evicted,
    )


def route(
    keys: Iterable[int], n_workers: int, seed: int, *, source: int = 0, **parameters: object
) -> list[int]:
    hash_seed = seeds(seed, 1)[0]
    predict = predictor(n_workers, seed, source, **parameters)  # type: ignore[arg-type]
    worker = (hash_seed % n_workers + source) % n_workers
    out = []
    for key in (int(key) for key in keys):
        if predict.observe(key):
            out.append(worker)
            worker = (worker + 1) % n_workers
        else:
            out.append(to_worker(seeded(key, hash_seed), n_workers))
    return out
