"""What choosing a worker takes: counted in workers looked at, not in seconds.

A clock would measure our compiled code, which finds the lightest of many workers without looking
at all of them. The paper's algorithms look at each candidate, so the candidates are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from skewless import registry, workloads
from skewless.arrays import Keys, Workers
from skewless.experiments.tables import Row
from skewless.kernels.hashing import seeded
from skewless.kernels.head import is_hot
from skewless.kernels.key_table import ABSENT, find_slot, get
from skewless.state import copy_state
from skewless.strategies.cascade import Cascade
from skewless.strategies.cascade.counting import is_heavy
from skewless.strategies.cascade.heavy_keys import find as find_heavy
from skewless.strategies.cascade.heavy_keys import first_place
from skewless.strategies.cascade.state import CURSORS, REACH, following, home_of, stride_of
from skewless.strategies.dagreedy import RECORDS
from skewless.strategies.dalton.bandit import WINDOW
from skewless.strategies.pd_stream.sampling_window import row_of

#: From the state before a record and the key of the record: how many workers are looked at.
Looks = Callable[[Any, np.uint64], int]


def _of_pkg(state: Any, key: np.uint64) -> int:
    return 2


def _of_w_choices(state: Any, key: np.uint64) -> int:
    """All workers for a hot key, two for any other."""
    return state.loads.size if is_hot(copy_state(state.head), key) else 2


def _of_dagreedy(state: Any, key: np.uint64) -> int:
    """A score for each worker where the key is hot; the others are hashed."""
    length, hot_above = state.settings
    begins = state.counters[RECORDS] % length == 0  # the counts are forgotten before this record
    count = 0 if begins else max(0, int(state.counts.values[find_slot(state.counts, key)]))
    return state.loads.size if count + 1 > hot_above else 1


def _of_dalton(state: Any, key: np.uint64) -> int:
    """The value of each worker where the key is hot; the others are hashed."""
    row = get(state.hot.table, key)
    hot = row != ABSENT and state.hot.until[row] >= state.counters[WINDOW]
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
        return int(state.cursors[place * CURSORS + REACH])
    out: Workers = np.empty(1, np.int32)
    Cascade().route(np.array([key]), copy_state(state), out)
    at, stride, n_looks = home_of(state, hashed), stride_of(state, hashed), 1
    while at != out[0]:
        at = following(at, stride, state.levels.size)
        n_looks += 1
    return n_looks


_LOOKS: dict[str, Looks] = {
    "pkg": _of_pkg,
    "w-choices": _of_w_choices,
    "dagreedy": _of_dagreedy,
    "dalton": _of_dalton,
    "pd-stream": _of_pd_stream,
    "cascade": _of_cascade,
}


def _n_bits(words: Any) -> int:
    return int(np.unpackbits(np.ascontiguousarray(words).view(np.uint8)).sum())


def _cascade_entries(state: Any) -> int:
    reaches = state.cursors.reshape(-1, CURSORS)[:, REACH]
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
