"""Predictors of hot keys behind one call: which of these records have a hot key when they come?

PStream's coins, count-min and adaptive count-min come from `strategies.pstream`, the fading of
FISH from `strategies.fish`, SpaceSaving from the kernels, and the counters of Cascade from its
routing. All are asked before they count the record.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from skewless import registry
from skewless._jit import kernel
from skewless.arrays import Bytes, Floats, Keys
from skewless.kernels.hashing import seed_array
from skewless.kernels.space_saving import SpaceSaving, offer, space_saving
from skewless.strategies.cascade.state import COUNT_EVERY, HEAVY, CascadeState
from skewless.strategies.fish.key_frequencies import (
    KeyFrequencies,
    fade,
    hot_above,
    key_frequencies,
)
from skewless.strategies.pstream import adaptive_count_min as ada
from skewless.strategies.pstream import count_min_predictor as cm
from skewless.strategies.pstream import hot_key_predictor as coins
from skewless.strategies.pstream.coin_synopsis import CHOSEN, RUN, heads

KINDS = ("coins", "count-min", "ada-count-min", "space-saving", "fading", "cascade")

#: Bytes that a design needs, whatever our own arrays take.
_COUNTER = 4
_COUNTED_KEY = 12  # a key and a counter
_KEY_AND_BITS = 10  # a key and a vector of 16 bits
_ROWS = 5  # of a sketch, δ = 1 %
_SLOTS = 4  # of the adaptive sketch
_EPOCH = 1_000  # of FISH
_ALPHA = 0.2
_PIECE = 250  # records that Cascade routes before its heavy keys are looked at again


class Predictor(Protocol):
    """Finds hot keys, and says what that cost."""

    def observe(self, keys: Keys, hot: Bytes) -> None:
        """Fill `hot` with 1 for each record whose key is hot when it comes, and learn from it."""

    def steps(self) -> float | None:
        """Return the steps so far: coins tossed, hashes taken, cells or entries touched.

        None where the number is not known.
        """


def synopsis_bytes(f: float) -> int:
    """Return what PStream's synopsis takes: 1 / p entries (Theorem 4), a key and its bits each.

    >>> synopsis_bytes(0.01)
    2000
    """
    return round(2 / f) * _KEY_AND_BITS


def predictor(kind: str, f: float, memory: int, window: int, seed: int) -> Predictor:
    """Return a predictor of keys above a share `f` that takes no more than `memory` bytes.

    The size of the coins follows from f, and that of Cascade from its workers: as many as make its
    threshold 1 / (8n) the nearest to f.
    """
    if kind == "coins":
        return _Coins(f, seed)
    if kind in ("count-min", "ada-count-min"):
        n_columns = 1 << max(1, (memory // (_COUNTER * _ROWS)).bit_length() - 1)
        # A little above e / columns, so that rounding does not double the columns.
        epsilon = min(np.e / n_columns * (1 + 1e-9), 0.999)
        return (_CountMin if kind == "count-min" else _AdaCountMin)(f, epsilon, window, seed)
    if kind == "space-saving":
        return _SpaceSaving(f, memory // _COUNTED_KEY)
    if kind == "fading":
        return _Fading(f, memory // _COUNTED_KEY)
    if kind == "cascade":
        return _Cascade(f, seed)
    raise ValueError(f"predictor must be one of {', '.join(KINDS)}, not {kind!r}")


@kernel
def _tosses(seed: Keys, first: int, n: int, most: int) -> int:
    """Return how many coins some records toss, each until tails or `most` heads."""
    total = 0
    for record in range(first, first + n):
        total += min(heads(seed[0], record) + 1, most)
    return total


class _Coins:
    """Tosses, and for each long run its entry and the entries that are shifted."""

    def __init__(self, f: float, seed: int) -> None:
        self._state = coins.hot_key_predictor(f, seeds=seed_array(seed, 3))
        self._tosses = 0

    def observe(self, keys: Keys, hot: Bytes) -> None:
        synopsis = self._state.synopsis
        most = int(synopsis.counters[RUN]) + 16
        first = int(self._state.counters[coins.RECORDS])
        self._tosses += _tosses(synopsis.seeds, first, keys.size, most)
        coins.observe_all(self._state, keys, hot)

    def steps(self) -> float:
        long_runs = int(self._state.counters[coins.LONG])
        return float(self._tosses + long_runs + int(self._state.synopsis.counters[CHOSEN]))


class _CountMin:
    """A hash and a cell per row; the new values give the estimate."""

    def __init__(self, f: float, epsilon: float, window: int, seed: int) -> None:
        self._state = cm.count_min_predictor(f, epsilon, 0.01, seed=seed)

    def observe(self, keys: Keys, hot: Bytes) -> None:
        cm.observe_all(self._state, keys, hot)

    def steps(self) -> float:
        return float(2 * _ROWS * self._state.sketch.total[0])


class _AdaCountMin:
    """A hash and a cell per row and slot, because key and slot are hashed together."""

    def __init__(self, f: float, epsilon: float, window: int, seed: int) -> None:
        slot = max(1, window // _SLOTS)
        self._state = ada.adaptive_count_min(f, epsilon, 0.01, slot=slot, n_slots=_SLOTS, seed=seed)
        self._n_records = 0

    def observe(self, keys: Keys, hot: Bytes) -> None:
        ada.observe_all(self._state, keys, hot)
        self._n_records += keys.size

    def steps(self) -> float:
        return float(2 * _ROWS * _SLOTS * self._n_records)


class _Summary(NamedTuple):
    summary: SpaceSaving
    share: Floats


@kernel
def _observe_summary(state: _Summary, keys: Keys, hot: Bytes) -> None:
    summary = state.summary
    for i in range(keys.size):
        above = state.share[0] * summary.total[0]
        hot[i] = offer(summary, keys[i], 1.0) - 1.0 > above


class _SpaceSaving:
    """Its steps depend on evictions, which are not counted."""

    def __init__(self, f: float, capacity: int) -> None:
        self._state = _Summary(space_saving(max(1, capacity)), np.array([f]))

    def observe(self, keys: Keys, hot: Bytes) -> None:
        _observe_summary(self._state, keys, hot)

    def steps(self) -> float | None:
        return None


@kernel
def _observe_fading(state: KeyFrequencies, keys: Keys, hot: Bytes) -> None:
    for i in range(keys.size):
        if state.n_in_epoch[0] >= state.epoch[0]:
            fade(state)
        above = hot_above(state)
        unit = state.summary.unit[0]
        hot[i] = (offer(state.summary, keys[i], 1.0) - 1.0) * unit > above
        state.n_in_epoch[0] += 1


class _Fading:
    """SpaceSaving whose counts fade after each epoch."""

    def __init__(self, f: float, capacity: int) -> None:
        self._state = key_frequencies(max(1, capacity), _EPOCH, _ALPHA, f)

    def observe(self, keys: Keys, hot: Bytes) -> None:
        _observe_fading(self._state, keys, hot)

    def steps(self) -> float | None:
        return None


def heavy_in_cascade(state: CascadeState) -> Keys:
    """Return the keys that this source of Cascade calls heavy."""
    counts = state.heavy.counts
    keys: Keys = state.heavy.keys[(counts > 0) & (counts >= state.numbers[HEAVY])]
    return keys


class _Cascade:
    """What the routing of Cascade takes for heavy, looked at every few records.

    A record takes a hash and its spot; a heavy one, and one in sixteen others, a bucket as well.
    """

    def __init__(self, f: float, seed: int) -> None:
        self._strategy: Any = registry.make("cascade")
        self._state = self._strategy.start(max(1, round(1 / (8 * f))), seed)
        self._n_records = 0
        self._n_heavy = 0

    def observe(self, keys: Keys, hot: Bytes) -> None:
        out = np.empty(min(_PIECE, keys.size), np.int32)
        for begin in range(0, keys.size, _PIECE):
            piece = keys[begin : begin + _PIECE]
            hot[begin : begin + piece.size] = np.isin(piece, heavy_in_cascade(self._state))
            self._strategy.route(piece, self._state, out[: piece.size])
        self._n_records += keys.size
        self._n_heavy += int(hot[: keys.size].sum())

    def steps(self) -> float:
        n_light = self._n_records - self._n_heavy
        return 2.0 * self._n_records + self._n_heavy + n_light / COUNT_EVERY
