"""Tables II to IV, whose replicas there are, and what choosing a worker takes: all counted.

A clock would measure our compiled code, which finds the lightest of many workers without looking
at all of them. The paper's algorithms look at each candidate, so the candidates are counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.records import Row
from experiments.reproduction.fitting import fitted_z, harmonic
from skewless import registry, workloads
from skewless.arrays import Keys, Workers
from skewless.kernels.hashing import seeded
from skewless.kernels.key_table import ABSENT, find_slot, get
from skewless.kernels.space_saving import is_hot
from skewless.state import copy_state
from skewless.strategies.cascade import Cascade
from skewless.strategies.cascade.counting import is_heavy
from skewless.strategies.cascade.heavy_keys import find as find_heavy
from skewless.strategies.cascade.heavy_keys import first_place
from skewless.strategies.cascade.state import following, home_of, stride_of
from skewless.strategies.pd_stream.hot_key_probability import probability_table
from skewless.strategies.pd_stream.sampling_window import row_of
from skewless.workloads.zipf import Zipf

_SOME_KEYS = 100_000

#: From the state before a record and the key of the record: how many workers are looked at.
Looks = Callable[[Any, np.uint64], int]


def _of_w_choices(state: Any, key: np.uint64) -> int:
    """All workers for a hot key, two for any other."""
    return state.loads.size if is_hot(copy_state(state.head), key) else 2


def _of_dagreedy(state: Any, key: np.uint64) -> int:
    """A score for each worker where the key is hot; the others are hashed."""
    length, hot_above = state.settings[0].item()
    # The counts are forgotten before the first record of an interval.
    begins = state.counters[0]["records"] % length == 0
    count = 0 if begins else max(0, int(state.counts.values[find_slot(state.counts, key)]))
    return state.loads.size if count + 1 > hot_above else 1


def _of_dalton(state: Any, key: np.uint64) -> int:
    """The value of each worker where the key is hot; the others are hashed."""
    row = get(state.hot.table, key)
    hot = row != ABSENT and state.hot.until[row] >= state.counters[0]["window"]
    return state.window.loads.size if hot else 1


def _of_pd_stream(state: Any, key: np.uint64) -> int:
    """The workers of a hot key's entry, and all workers where one more may join (Alg. 2)."""
    row = row_of(state.window, np.uint64(seeded(key, state.seed[0])))
    count = int(state.window.counts[row])
    if count < state.hot_from[0]:
        return 2
    size = int(state.sizes[row]) or 2
    return size + (state.loads.size if state.needed[count] > size else 0)


def _of_cascade(state: Any, key: np.uint64) -> int:
    """The workers in use by a heavy key; the way along the order to the worker of a light one."""
    hashed = np.uint64(seeded(key, state.seed[0]))
    place = find_heavy(state.heavy, first_place(state.heavy, hashed), key)
    if place != ABSENT and is_heavy(state, place):
        return int(state.cursors["reach"][place])
    out: Workers = np.empty(1, np.int32)
    Cascade().route(np.array([key]), copy_state(state), out)
    at, stride, n_looks = home_of(state, hashed), stride_of(state, hashed), 1
    while at != out[0]:
        at = following(at, stride, state.levels.size)
        n_looks += 1
    return n_looks


_LOOKS: dict[str, Looks] = {
    "pkg": lambda state, key: 2,
    "w-choices": _of_w_choices,
    "dagreedy": _of_dagreedy,
    "dalton": _of_dalton,
    "pd-stream": _of_pd_stream,
    "cascade": _of_cascade,
}


def _n_bits(words: Any) -> int:
    return int(np.unpackbits(np.ascontiguousarray(words).view(np.uint8)).sum())


def _cascade_entries(state: Any) -> int:
    reaches = state.cursors["reach"]
    n_places = state.heavy.counts.size
    return sum(int(reaches[p]) for p in range(n_places) if is_heavy(state, p))


#: From a state: entries (key, worker) or counters of keys that a source needs to route hot keys.
_ENTRIES: dict[str, Callable[[Any], int]] = {
    "pkg": lambda state: 0,
    "w-choices": lambda state: int(state.head.summary.size[0]),
    "dagreedy": lambda state: _n_bits(state.holders),
    "dalton": lambda state: int(
        (state.hot.keys.size - state.hot.n_free[0]) * state.window.loads.size
    ),
    "pd-stream": lambda state: int(state.sizes[state.window.counts > 0].sum()),
    "cascade": _cascade_entries,
}


@dataclass(frozen=True)
class CountedLooks:
    """One of several sources, watched at evenly spaced records.

    Its row has `looks`, the mean number of workers looked at for a record; `entries`, those of
    its routing table at the end of the stream; and `window_keys`, the mean number of distinct keys
    in a window of all sources.
    """

    strategy: str
    of: Mapping[str, Any]  # parameters of the workload `zipf`
    n_workers: int
    n_sources: int
    seed: int
    samples: int = 2_000
    window: int = 10_000

    def run(self) -> Row:
        """Route the share of the first source, and look at it from time to time."""
        strategy = registry.make(self.strategy)
        stream = np.concatenate(list(workloads.make("zipf", **self.of).chunks(self.seed)))
        keys = np.ascontiguousarray(stream[:: self.n_sources])
        state = strategy.start(self.n_workers, self.seed)
        # The first half teaches the strategy which keys are hot.
        watched = np.linspace(keys.size // 2, keys.size - 1, self.samples).astype(np.int64)
        looks, done = [], 0
        for at in np.unique(watched):
            strategy.route(keys[done:at], state, np.empty(at - done, np.int32))
            looks.append(_LOOKS[self.strategy](state, keys[at]))
            done = at
        strategy.route(keys[done:], state, np.empty(keys.size - done, np.int32))
        return {
            "strategy": self.strategy,
            "workers": self.n_workers,
            "looks": float(np.mean(looks)),
            "entries": _ENTRIES[self.strategy](state),
            "sources": self.n_sources,
            "window_keys": float(np.mean([np.unique(part).size for part in self._windows(stream)])),
        }

    def _windows(self, stream: Keys) -> list[Keys]:
        """Return the whole windows of a stream; the stream itself if it has none."""
        n_windows = stream.size // self.window
        return [*stream[: n_windows * self.window].reshape(n_windows, -1)] or [stream]


@dataclass(frozen=True)
class Sampling:
    """A key with exactly the share θ = 2/n of a stream, and windows of N = α/θ records.

    Its row has the share of windows without the key: `missed` as counted at each record of the
    stream, `expected` = (1 − θ)^N, and the `limit` e^−α for many workers.
    """

    alpha: int
    n_workers: int
    n_records: int
    seed: int

    def run(self) -> Row:
        """Draw the stream, and add up how long the key stays away."""
        theta = 2 / self.n_workers
        length = round(self.alpha / theta)
        # Four digits of z are enough for four of the share.
        stream = Zipf(fitted_z(_SOME_KEYS, theta), _SOME_KEYS, self.n_records)
        ranks = np.concatenate(list(stream.ranks(self.seed)))
        places = np.flatnonzero(ranks == 1)
        # Between two of its records, windows without the key end at all records beyond `length`.
        away = np.maximum(0, np.diff(places) - length)
        return {
            "alpha": self.alpha,
            "missed": float(away.sum() / (places[-1] - places[0])),
            "expected": (1 - theta) ** length,
            "limit": math.exp(-self.alpha),
        }


@dataclass(frozen=True)
class Probabilities:
    """The probability table of a sampling window, by the number of times that a key occurs."""

    length: int
    confidence: float

    def run(self) -> Row:
        """Return the strategy's own probability for each count of a key in the window."""
        table = probability_table(self.length, self.confidence)
        return {str(count): float(table[count]) for count in range(1, self.length + 1)}


@dataclass(frozen=True)
class Distinct:
    """What a Zipf stream has: distinct keys and the share of its first key.

    Its row has both as counted in `n_records` records, and what is expected there and in
    `n_published` records, which need not be drawn for that.
    """

    z: float
    n_keys: int
    n_records: int
    n_published: int
    seed: int

    def run(self) -> Row:
        """Draw the stream and count; sum up the probabilities that keys occur."""
        ranks = np.concatenate(list(Zipf(self.z, self.n_keys, self.n_records).ranks(self.seed)))
        return {
            "keys": int(np.unique(ranks).size),
            "top_share": float((ranks == 1).mean()),
            "expected_keys": self._expected(self.n_records),
            "expected_published": self._expected(self.n_published),
        }

    def _expected(self, n_records: int) -> float:
        """Count the keys that occur: rank by rank at first, then in stretches of equal ranks."""
        n_exact = min(self.n_keys, 10_000)
        edges = np.unique(np.geomspace(n_exact + 1, self.n_keys + 1, 20_000).astype(np.int64))
        ranks = np.concatenate([np.arange(1.0, n_exact + 1), (edges[:-1] + edges[1:] - 1) / 2])
        sizes = np.concatenate([np.ones(n_exact), np.diff(edges)])
        shares = ranks**-self.z / harmonic(self.n_keys, self.z)
        return float((sizes * -np.expm1(n_records * np.log1p(-shares))).sum())


@dataclass(frozen=True)
class ColdReplicas:
    """Which part of the replicas beyond one per key belongs to keys that are never hot.

    A key counts as cold with fewer than `cold_share` of all records. Its row has `cold_part`, and
    the replication of all keys.
    """

    strategy: str
    of: Mapping[str, Any]  # parameters of the workload `zipf`
    n_workers: int
    n_sources: int
    seed: int
    cold_share: float = 3e-5

    def run(self) -> Row:
        """Route the stream, and count the workers of each key."""
        keys = np.concatenate(list(workloads.make("zipf", **self.of).chunks(self.seed)))
        strategy = registry.make(self.strategy)
        workers = np.empty(keys.size, np.int32)
        for source in range(self.n_sources):
            share = np.ascontiguousarray(keys[source :: self.n_sources])
            out = np.empty(share.size, np.int32)
            strategy.route(share, strategy.start(self.n_workers, self.seed, source=source), out)
            workers[source :: self.n_sources] = out
        _, index, counts = np.unique(keys, return_inverse=True, return_counts=True)
        pairs = np.unique(index.astype(np.int64) * self.n_workers + workers)
        beyond_one = np.bincount(pairs // self.n_workers) - 1
        cold = counts < max(3.0, self.cold_share * keys.size)
        return {
            "strategy": self.strategy,
            "workers": self.n_workers,
            "replication": float(pairs.size / counts.size),
            "cold_part": float(beyond_one[cold].sum() / max(1, beyond_one.sum())),
        }
