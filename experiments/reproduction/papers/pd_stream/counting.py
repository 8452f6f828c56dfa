"""Tables II to IV, whose replicas there are, and what choosing a worker takes.

Figure 13 has a clock. It measures our compiled code, which finds the lightest of many workers
without looking at all of them. The paper's algorithms look at each candidate, so the candidates are
counted as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.records import Row
from experiments.reproduction.cells import keys_of, seconds_per_record
from experiments.reproduction.figure import cell
from experiments.reproduction.fitting import expected_keys, fitted_z
from skewless import registry
from skewless.arrays import Keys
from skewless.kernels.hashing import seeded
from skewless.kernels.key_table import ABSENT, find_slot, get
from skewless.kernels.space_saving import is_hot
from skewless.state import copy_state
from skewless.strategies.pd_stream.sampling_window import row_of
from skewless.strategies.pd_stream.strategy import probability_table
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


_LOOKS: dict[str, Looks] = {
    "pkg": lambda state, key: 2,
    "w-choices": _of_w_choices,
    "dagreedy": _of_dagreedy,
    "dalton": _of_dalton,
    "pd-stream": _of_pd_stream,
}


#: From a state: entries (key, worker) or counters of keys that a source needs to route hot keys.
_ENTRIES: dict[str, Callable[[Any], int]] = {
    "pkg": lambda state: 0,
    "w-choices": lambda state: int(state.head.summary.size[0]),
    "dagreedy": lambda state: int(np.bitwise_count(state.holders).sum()),
    "dalton": lambda state: int(
        (state.hot.keys.size - state.hot.n_free[0]) * state.window.loads.size
    ),
    "pd-stream": lambda state: int(state.sizes[state.window.counts > 0].sum()),
}


@cell
def counted_looks(
    strategy: str,
    workload: str,
    of: Mapping[str, Any],
    n_workers: int,
    n_sources: int,
    seed: int,
    samples: int = 2_000,
    window: int = 10_000,
) -> Row:
    """One of several sources, watched at evenly spaced records.

    Its row has `looks`, the mean number of workers looked at for a record; `entries`, those of
    its routing table at the end of the stream; and `window_keys`, the mean number of distinct keys
    in a window of all sources.
    """
    own = registry.make(strategy)
    stream = keys_of(workload, of, seed)
    keys = np.ascontiguousarray(stream[::n_sources])
    state = own.start(n_workers, seed)
    # The first half teaches the strategy which keys are hot.
    watched = np.linspace(keys.size // 2, keys.size - 1, samples).astype(np.int64)
    looks, done = [], 0
    for at in np.unique(watched):
        own.route(keys[done:at], state, np.empty(at - done, np.int32))
        looks.append(_LOOKS[strategy](state, keys[at]))
        done = at
    own.route(keys[done:], state, np.empty(keys.size - done, np.int32))
    n_windows = stream.size // window
    windows = [*stream[: n_windows * window].reshape(n_windows, -1)] or [stream]
    return {
        "workers": n_workers,
        "looks": float(np.mean(looks)),
        "entries": _ENTRIES[strategy](state),
        "window_keys": float(np.mean([np.unique(part).size for part in windows])),
    }


@cell
def clocked_routes(
    strategies: list[str],
    workload: str,
    of: Mapping[str, Any],
    n_workers: int,
    n_sources: int,
    seed: int,
) -> Row:
    """Seconds per record of one source, by strategy, for the second half of a stream."""
    keys = np.ascontiguousarray(keys_of(workload, of, seed)[::n_sources])
    half = keys.size // 2

    def router(strategy: str) -> Callable[[Keys], object]:
        own = registry.make(strategy)
        state, out = own.start(n_workers, seed), np.empty(half, np.int32)
        own.route(keys[:half], state, out)
        return lambda piece: own.route(piece, state, out[: piece.size])

    return seconds_per_record({name: router(name) for name in strategies}, keys[half:])


@cell
def sampling(alpha: int, n_workers: int, n_records: int, seed: int) -> Row:
    """A key with exactly the share θ = 2/n of a stream, and windows of N = α/θ records.

    Its row has the share of windows without the key: `missed` as counted at each record of the
    stream, `expected` = (1 − θ)^N, and the `limit` e^−α for many workers.
    """
    theta = 2 / n_workers
    length = round(alpha / theta)
    # Four digits of z are enough for four of the share.
    stream = Zipf(fitted_z(_SOME_KEYS, theta), _SOME_KEYS, n_records)
    ranks = np.concatenate(list(stream.ranks(seed)))
    places = np.flatnonzero(ranks == 1)
    # Between two of its records, windows without the key end at all records beyond `length`.
    away = np.maximum(0, np.diff(places) - length)
    return {
        "missed": float(away.sum() / (places[-1] - places[0])),
        "expected": (1 - theta) ** length,
        "limit": math.exp(-alpha),
    }


@cell
def probabilities(length: int, confidence: float) -> Row:
    """The probability table of a sampling window, by the number of times that a key occurs."""
    table = probability_table(length, confidence)
    return {str(count): float(table[count]) for count in range(1, length + 1)}


@cell
def distinct(z: float, n_keys: int, n_records: int, n_published: int, seed: int) -> Row:
    """What a Zipf stream has: distinct keys and the share of its first key.

    Its row has both as counted in `n_records` records, and what is expected there and in
    `n_published` records, which need not be drawn for that.
    """
    ranks = np.concatenate(list(Zipf(z, n_keys, n_records).ranks(seed)))
    return {
        "keys": int(np.unique(ranks).size),
        "top_share": float((ranks == 1).mean()),
        "expected_keys": expected_keys(z, n_keys, n_records),
        "expected_published": expected_keys(z, n_keys, n_published),
    }


@cell
def cold_replicas(
    strategy: str, workload: str, of: Mapping[str, Any], n_workers: int, n_sources: int, seed: int
) -> Row:
    """Which part of the replicas beyond one per key belongs to keys that are never hot.

    A key counts as cold with fewer than 3 in 100,000 records. Its row has `cold_part`, and
    the replication of all keys.
    """
    keys = keys_of(workload, of, seed)
    own = registry.make(strategy)
    workers = np.empty(keys.size, np.int32)
    for source in range(n_sources):
        share = np.ascontiguousarray(keys[source::n_sources])
        out = np.empty(share.size, np.int32)
        own.route(share, own.start(n_workers, seed, source=source), out)
        workers[source::n_sources] = out
    _, index, counts = np.unique(keys, return_inverse=True, return_counts=True)
    pairs = np.unique(index.astype(np.int64) * n_workers + workers)
    beyond_one = np.bincount(pairs // n_workers) - 1
    cold = counts < max(3.0, 3e-5 * keys.size)
    return {
        "replication": float(pairs.size / counts.size),
        "cold_part": float(beyond_one[cold].sum() / max(1, beyond_one.sum())),
    }
