"""What PStream is compared with: predictors of hot keys, and a DKG that splits keys.

A predictor says which of these records have a hot key when they come. PStream's coins, count-min
and adaptive count-min come from `strategies.pstream`, SpaceSaving and the fading of FISH
from `strategies.fish`. All are asked before they count the record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from experiments.reproduction.cells import Simulation
from skewless.arrays import Bytes, Ints, Keys, Words, Workers
from skewless.kernels.hashing import draw, seed_array, seeded, to_worker
from skewless.kernels.key_table import KeyTable, get, key_table, put
from skewless.kernels.space_saving import offer
from skewless.parameters import check_types, require
from skewless.plumbing.compiling import kernel
from skewless.strategies.fish.key_frequencies import (
    KeyFrequencies,
    fade,
    hot_above,
    key_frequencies,
)
from skewless.strategies.pstream import adaptive_count_min as ada
from skewless.strategies.pstream import hot_key_predictor as coins
from skewless.strategies.pstream.coin_synopsis import heads
from skewless.strategy import Traits

KINDS = ("coins", "count-min", "ada-count-min", "space-saving", "fading")

#: Bytes that a design needs, whatever our own arrays take.
_COUNTER = 4
_COUNTED_KEY = 12  # a key and a counter
_KEY_AND_BITS = 10  # a key and a vector of 16 bits
_ROWS = 5  # of a sketch, δ = 1 %
_SLOTS = 4  # of the adaptive sketch
_EPOCH = 1_000  # of FISH
_ALPHA = 0.2


class Predictor(NamedTuple):
    """Finds hot keys, and says what that cost."""

    #: Fills `hot` with 1 for each record whose key is hot when it comes, and learns from it.
    observe: Callable[[Keys, Bytes], None]
    #: After so many records: coins tossed, hashes taken, cells or entries touched; None: not known.
    steps: Callable[[int], float | None]


def synopsis_bytes(f: float) -> int:
    """Return the bytes of PStream's synopsis: 1 / p entries (Theorem 4), a key and its bits each.

    >>> synopsis_bytes(0.01)
    2000
    """
    return round(2 / f) * _KEY_AND_BITS


def predictor(kind: str, f: float, memory: int, window: int, seed: int) -> Predictor:
    """Return a predictor of keys above a share `f` that takes no more than `memory` bytes.

    The size of the coins follows from f.
    """
    if kind == "coins":
        return _coins(f, seed)
    capacity = max(1, memory // _COUNTED_KEY)
    if kind in ("space-saving", "fading"):
        # SpaceSaving is FISH without fading: α = 1, whatever the epoch.
        epoch, alpha = (_EPOCH, _ALPHA) if kind == "fading" else (1, 1.0)
        frequencies = key_frequencies(capacity, epoch, alpha, f)
        return Predictor(partial(_observe_frequencies, frequencies), lambda n: None)
    n_columns = 1 << max(1, (memory // (_COUNTER * _ROWS)).bit_length() - 1)
    # A little above e / columns, so that rounding does not double the columns.
    epsilon = min(np.e / n_columns * (1 + 1e-9), 0.999)
    if kind == "count-min":  # a hash and a cell per row; the new values give the estimate
        sketch = ada.adaptive_count_min(f, epsilon, 0.01, slot=1 << 62, n_slots=1, seed=seed)
        return Predictor(partial(ada.observe_all, sketch), lambda n: 2.0 * _ROWS * n)
    if kind == "ada-count-min":  # as many per slot, because key and slot are hashed together
        slot = max(1, window // _SLOTS)
        slots = ada.adaptive_count_min(f, epsilon, 0.01, slot=slot, n_slots=_SLOTS, seed=seed)
        return Predictor(partial(ada.observe_all, slots), lambda n: 2.0 * _ROWS * _SLOTS * n)
    raise ValueError(f"predictor must be one of {', '.join(KINDS)}, not {kind!r}")


@kernel
def _tosses(seed: Keys, first: int, n: int, most: int) -> int:
    """Count the coins that some records toss, each until tails or `most` heads."""
    total = 0
    for record in range(first, first + n):
        total += min(heads(seed[0], record) + 1, most)
    return total


def _coins(f: float, seed: int) -> Predictor:
    """Return the coins; steps are tosses, and for each long run its entry and those shifted."""
    state = coins.hot_key_predictor(f, seeds=seed_array(seed, 3))
    tosses: list[int] = []

    def observe(keys: Keys, hot: Bytes) -> None:
        most = int(state.synopsis.counters[0]["run"]) + 16
        first = int(state.counters[0]["records"])
        tosses.append(_tosses(state.synopsis.seeds, first, keys.size, most))
        coins.observe_all(state, keys, hot)

    def steps(n: int) -> float:
        shifted = int(state.synopsis.counters[0]["chosen"])
        return float(sum(tosses) + int(state.counters[0]["long"]) + shifted)

    return Predictor(observe, steps)


@kernel
def _observe_frequencies(state: KeyFrequencies, keys: Keys, hot: Bytes) -> None:
    for i in range(keys.size):
        if state.n_in_epoch[0] >= state.epoch[0]:
            fade(state)
        above = hot_above(state)
        unit = state.summary.unit[0]
        hot[i] = (offer(state.summary, keys[i], 1.0) - 1.0) * unit > above
        state.n_in_epoch[0] += 1


class SplitKeysState(NamedTuple):
    """What the sample has of each key."""

    seeds: Words
    counts: KeyTable
    numbers: Ints  # [workers, records of the sample, records so far]


@kernel
def _route(keys: Keys, state: SplitKeysState, out: Workers) -> None:
    n_workers, sample = state.numbers[0], state.numbers[1]
    for i in range(keys.size):
        count = np.int64(max(get(state.counts, keys[i]), 0))
        record = state.numbers[2]
        state.numbers[2] += 1
        n_parts = np.int64(1)
        if record < sample:
            put(state.counts, keys[i], np.int32(count + 1))
        elif count > 0:
            n_parts = (count * n_workers + sample - 1) // sample
        part = to_worker(draw(state.seeds[1], record), n_parts)
        out[i] = (to_worker(seeded(keys[i], state.seeds[0]), n_workers) + part) % n_workers


@dataclass(frozen=True)
class SplitKeys:
    """The DKG of PStream's comparison, which splits hot keys; the strategy `dkg` keeps keys whole.

    PStream's section 2 says what its reference 21 does (Balkesen, Tatbul, Özsu, DEBS 2013): records
    of a hot key are split evenly into parts, as many as its frequency demands; frequencies come
    from a sample, and do not follow the stream. Not stated, and chosen here: the sample is the
    beginning of the stream, during which keys are hashed; a part has at most the fair load of a
    worker; the parts of a key are on neighbouring workers, from the one that its hash names.
    """

    name: ClassVar[str] = "split-keys"

    sample: int = 10_000

    def __post_init__(self) -> None:
        check_types(self)
        require(self, "sample", 1 <= self.sample <= 10**8, "from 1 to 10^8")

    @property
    def traits(self) -> Traits:
        """A key with all records is on all workers."""
        return Traits(family="splitting")

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> SplitKeysState:
        """Return the state of a source that has sent nothing."""
        numbers = np.array([n_workers, self.sample, 0], np.int64)
        return SplitKeysState(seed_array(seed, 2), key_table(self.sample), numbers)

    def route(self, keys: Keys, state: SplitKeysState, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        _route(keys, state, out)


@dataclass(frozen=True)
class SplitSimulation(Simulation):
    """A simulation of `SplitKeys`; of this module, so that a change of it is measured anew."""

    strategy: str = f"{__name__}:SplitKeys"
    workload: str = "zipf"
