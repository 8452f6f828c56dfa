"""PStream: shuffle the hot keys, hash the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from skewless.arrays import Floats, Ints, Keys, SmallInts, Words, Workers, read_only
from skewless.kernels.hashing import draw, hashed_workers, seed_array, seeded, to_worker
from skewless.parameters import check_types, require, require_all_stay
from skewless.plumbing.compiling import kernel
from skewless.state import copy_state, fixed, require_within
from skewless.strategies.pstream.hot_key_predictor import (
    BLOCK,
    HotKeyPredictor,
    hot_key_predictor,
    observe,
)
from skewless.strategies.pstream.merging import keep_all, merge, send_off, take_over
from skewless.strategy import Traits

_FIRST_F = 0.02  # p = 0.01, as in the authors' code
# The default of `least_f`, in fair shares of a worker. W-Choices and D-Choices call a key hot above
# the same share.
_LEAST_F_PER_SHARE = 0.2
_SMALLEST_F = 1e-6  # the synopsis then has 4 million entries


@fixed("seed", "n_workers")
class PStreamState(NamedTuple):
    """The next worker in the round of hot records, and the predictor of this source."""

    seed: Words
    n_workers: Ints
    next_worker: Ints
    predictor: HotKeyPredictor
    hot: SmallInts  # scratch, per record of a block
    places: SmallInts  # scratch

    def check(self, fresh: PStreamState) -> None:
        """Refuse a worker that does not exist."""
        require_within("next_worker", self.next_worker, 0, int(self.n_workers[0]) - 1)


@kernel
def _assign(keys: Keys, hot: SmallInts, state: PStreamState, out: Workers) -> None:
    """Send hot records to the workers in turn and the others by hash, without a branch."""
    n_workers = np.int32(state.n_workers[0])
    worker = np.int32(state.next_worker[0])
    for i in range(keys.size):
        out[i] = to_worker(seeded(keys[i], state.seed[0]), n_workers)
    for i in range(keys.size):
        hashed = out[i]
        out[i] = hashed ^ ((worker ^ hashed) & -hot[i])
        worker += hot[i]
        worker -= n_workers * np.int32(worker == n_workers)
    state.next_worker[0] = worker


@kernel
def _route(keys: Keys, state: PStreamState, out: Workers) -> None:
    i = 0
    while i < keys.size:
        n = observe(state.predictor, keys[i:], state.hot, state.places)
        _assign(keys[i : i + n], state.hot[:n], state, out[i : i + n])
        i += n


@dataclass(frozen=True)
class PStream:
    """Shuffle the records of hot keys over all workers, hash the others.

    Hot keys are found by tossing coins. Each record tosses until tails, and only a run of r heads
    or more, which is rare, reaches the synopsis of keys. A key with two long runs of different
    length is hot until they have faded; a counting Bloom filter holds the hot keys. The threshold
    f may adapt itself: few rare records against few hot keys.

    **Guarantee**: a key that was never hot has one worker (or more, if the filter takes it for a
    hot one). A key with N records, x = N / 2^r, has had two long runs except
    with probability (1 + x)·e^−x, and two of different length, which make it hot, except with
    e^−x·(1 + Σ_b (e^(x / 2^(b+1)) − 1)), b = 0, 1, …. If 2^r records are N each of 2^r / N keys,
    any of these becomes hot with a probability below N / 2^r. Memory: 4 / f + 12 / √f entries.

    Parameters
    ----------
    f
        The share of the records above which a key should be hot; p = f / 2, r = ⌊log2(1 / p)⌋.
        None: starts at 0.02 and adapts itself.
    least_f
        The smallest f that may be adapted to; it sizes the memory. None means 1 / (5n). With half
        the f, keys take four times as long to be found.
    length
        l, the bits of a vector; a run of r + l heads counts as one of r + l − 1.
    time_weight
        w_T, what the share of rare records weighs against that of hot keys, w_S = 1 − w_T.
    interval
        When f is adapted: after this many times 1 / p long runs, in which an entry is shifted once.
    bounded
        False: an f that adapts may fall below `least_f`, as in the paper, but memory stays that
        for `least_f`: keys that find no room in the synopsis are not hot.
    whole_runs
        Whether a run of r + b heads sets bit r + b, as in the authors' program, instead of bit b.
    until_evicted
        Whether a hot key stays hot until its vector is empty, as in section 5 and in the authors'
        program, instead of until fewer than two bits are left.

    **Deviations from the paper**: each source has a predictor of its own, and H(f) is a share of
    the keys of an interval. The complete list, with reasons, is in `docs/strategies/pstream.md`.

    Examples
    --------
    >>> out = np.empty(400, np.int32)
    >>> strategy = PStream(f=0.5)
    >>> strategy.route(np.ones(400, np.uint64), strategy.start(4, seed=0), out)
    >>> out[:6].tolist(), out[-6:].tolist()
    ([0, 0, 0, 0, 0, 0], [3, 0, 1, 2, 3, 0])

    References
    ----------
    Chen, Zhang, Jin, "PStream: a popularity-aware differentiated distributed stream processing
    system", IEEE Transactions on Computers 2021: Algorithm 1, sections 3.2, 4.1–4.4, Fig. 12.
    """

    name: ClassVar[str] = "pstream"
    traits: ClassVar[Traits] = Traits(family="splitting", ignores_speeds=True)

    f: float | None = None
    least_f: float | None = None
    length: int = 16
    time_weight: float = 0.5
    interval: float = 1.0
    bounded: bool = True
    whole_runs: bool = False
    until_evicted: bool = False

    def __post_init__(self) -> None:
        check_types(self)
        in_range = f"from {_SMALLEST_F} to 1"
        for name, value in (("f", self.f), ("least_f", self.least_f)):
            require(self, name, value is None or _SMALLEST_F <= value <= 1, f"{in_range} or None")
        adapts = self.f is None or self.least_f is None
        require(self, "least_f", adapts, "None when f is given, because f then never changes")
        require(self, "length", 2 <= self.length <= 32, "from 2 to 32")
        if given := self.f or self.least_f:
            self._require_two_bits(given)
        require(self, "time_weight", 0 <= self.time_weight <= 1, "from 0 to 1")
        require(self, "interval", 0 < self.interval < np.inf, "above 0 and finite")
        adapts = self.f is None
        require(self, "bounded", adapts or self.bounded, "True when f is given: it never changes")

    def _require_two_bits(self, f: float) -> None:
        """Raise ValueError if whole runs would all set the last bit, so that no key became hot."""
        r = math.floor(math.log2(2 / f))
        enough = not self.whole_runs or self.length >= r + 2
        require(self, "length", enough, f"at least {r + 2} with whole_runs and f = {f:g}")

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> PStreamState:
        """Return the state of a source that has seen nothing; each source has different coins."""
        seeds = seed_array(seed, 4)
        own = [int(draw(word, source)) for word in seeds[2:]]
        first_worker = (int(seeds[0] % np.uint64(n_workers)) + source) % n_workers
        return PStreamState(
            seed=seeds[:1],
            n_workers=np.array([n_workers]),
            next_worker=np.array([first_worker]),
            predictor=self._predictor(n_workers, np.array([int(seeds[1]), *own], np.uint64)),
            hot=np.zeros(BLOCK, np.int32),
            places=np.zeros(2 * BLOCK, np.int32),
        )

    def _predictor(self, n_workers: int, seeds: Words, f: float | None = None) -> HotKeyPredictor:
        """Return a predictor for this many workers that has seen nothing; `f` is one it had."""
        least = self.least_f or max(_SMALLEST_F, _LEAST_F_PER_SHARE / n_workers)
        self._require_two_bits(self.f or least)
        first = max(_FIRST_F, least) if f is None else f
        return hot_key_predictor(
            self.f or max(first, least if self.bounded else _SMALLEST_F),
            least_f=None if self.f else least,
            floor=None if self.bounded else _SMALLEST_F,
            length=self.length,
            time_weight=self.time_weight,
            interval=self.interval,
            whole_runs=self.whole_runs,
            until_evicted=self.until_evicted,
            seeds=seeds,
        )

    def rescale(
        self, state: PStreamState, n_workers: int, capacities: Floats | None = None
    ) -> PStreamState:
        """Return the state for another number of workers; hot keys stay hot.

        All workers get the same part of the hot records: differences in speed are ignored. Other
        keys are hashed to all workers anew, so half of them or more change worker.
        """
        require_all_stay(self.name, capacities)
        old = state.predictor
        seeds = np.concatenate([old.filter.seed, old.synopsis.seeds])
        predictor = self._predictor(n_workers, seeds, float(old.settings[0]["share"]))
        keep_all(predictor, copy_state(old))
        return state._replace(
            n_workers=np.array([n_workers]),
            next_worker=state.next_worker % n_workers,
            predictor=predictor,
        )

    def route(self, keys: Keys, state: PStreamState, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        _route(read_only(keys), state, out)

    def homes(self, keys: Keys, state: PStreamState) -> Workers:
        """Return the worker to which each key is hashed while it is not hot."""
        return hashed_workers(keys, state.seed, int(state.n_workers[0]))

    def wait(self, state: PStreamState) -> None:
        """Note that a copy of `state` has been sent: what follows is kept apart until `fork`."""
        send_off(state.predictor)

    def merge(self, states: Sequence[PStreamState]) -> PStreamState:
        """Return the state of the central predictor; the same in any order of `states`."""
        first = copy_state(states[0])
        return first._replace(
            next_worker=np.min([state.next_worker for state in states], axis=0),
            predictor=merge([state.predictor for state in states]),
            hot=np.zeros_like(first.hot),
            places=np.zeros_like(first.places),
        )

    def fork(self, merged: PStreamState, own: PStreamState, source: int) -> PStreamState:
        """Return `merged` with the coins and the round of `own`, and what it learned since."""
        forked = copy_state(merged)
        forked.next_worker[:] = own.next_worker
        take_over(forked.predictor, own.predictor)
        return forked
