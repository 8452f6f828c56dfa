"""Mixed's fluctuation: between intervals, workers' keys swap frequencies until load has shifted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from skewless import registry
from skewless.arrays import F64, I32, I64, U64, Floats, Ints, Keys, SmallInts, Workers
from skewless.kernels.hashing import draw
from skewless.kernels.xxhash64 import hash_ranks
from skewless.parameters import require
from skewless.plumbing.arguments import seed_number
from skewless.plumbing.compiling import kernel
from skewless.workloads.workload import CHUNK_SIZE, draw_seeds, segments
from skewless.workloads.zipf import Zipf, zipf_probabilities


class Frequencies(NamedTuple):
    """Which key has which frequency; keys and ranks are counted from 0 here."""

    by_rank: Floats  # the frequency of each rank, falling
    key_at: Ints  # the key that has the frequency of this rank now
    rank_of: Ints  # the rank of each key now
    owners: Workers  # the worker of each key, fixed
    members: Ints  # the keys of worker 0, of worker 1, …
    starts: Ints  # where each worker's keys begin among the members, and where the last end
    loads: Floats  # the sum of frequencies of each worker


#: By which share of f a change may be larger than f. Without a bound, the hottest key of a worker
#: would be a change of half its load whatever f is.
_BEYOND = 0.05


@kernel
def _swap(state: Frequencies, heavy: I64, light: I64, giver: I32, taker: I32) -> None:
    """Swap the frequencies of a key of the giver and a key of the taker."""
    rank, other = state.rank_of[heavy], state.rank_of[light]
    state.key_at[rank], state.key_at[other] = light, heavy
    state.rank_of[light], state.rank_of[heavy] = rank, other
    shifted = state.by_rank[rank] - state.by_rank[other]
    state.loads[giver] -= shifted
    state.loads[taker] += shifted


@kernel
def _fitting(state: Frequencies, rank: I64, taker: I32, most: F64) -> I64:
    """Return the taker's lightest key to which the frequency of `rank` shifts at most `most`.

    Minus 1: the taker has none between the two frequencies.
    """
    floor = state.by_rank[rank] - most
    low, high = rank, state.by_rank.size  # the frequency is at least `floor` up to `low`
    while high - low > 1:
        middle = (low + high) // 2
        if state.by_rank[middle] >= floor:
            low = middle
        else:
            high = middle
    while low > rank:
        if state.owners[state.key_at[low]] == taker:
            return state.key_at[low]
        low -= 1
    return np.int64(-1)


@kernel
def _next_lighter(state: Frequencies, rank: I64, taker: I32) -> I64:
    """Return the taker's heaviest key that is lighter than `rank`; minus 1: there is none."""
    for other in range(rank + 1, state.key_at.size):
        if state.owners[state.key_at[other]] == taker:
            return state.key_at[other]
    return np.int64(-1)


@kernel
def _walk(state: Frequencies, giver: I32, taker: I32, rate: F64, seed: U64, beyond: bool) -> bool:
    """Swap keys of the giver, the heaviest first; return whether its load has changed enough.

    `beyond`: a key that has no partner within 1.05 · rate swaps too, with the one that is next to
    it. Otherwise it is left out.
    """
    first = state.starts[taker]
    n_members = np.uint64(state.starts[taker + 1] - first)
    enough = state.loads[giver] / (1.0 + rate)
    least = state.loads[giver] / (1.0 + (1.0 + _BEYOND) * rate)
    for rank in range(state.key_at.size):
        if state.loads[giver] <= enough:
            return True
        heavy = state.key_at[rank]
        if state.owners[heavy] != giver:
            continue
        light = state.members[first + np.int64(draw(seed, rank) % n_members)]
        other = state.rank_of[light]
        if other <= rank:
            continue  # not lighter: the giver keeps this frequency
        if state.loads[giver] - (state.by_rank[rank] - state.by_rank[other]) < least:
            light = _fitting(state, rank, taker, state.loads[giver] - least)
            if light < 0 and beyond:
                light = _next_lighter(state, rank, taker)
            if light < 0:
                continue
        _swap(state, heavy, light, giver, taker)
    return bool(state.loads[giver] <= enough)


def shift_load(state: Frequencies, giver: int, taker: int, rate: float, seed: np.uint64) -> None:
    """Swap frequencies of the giver's keys with lighter ones of the taker, the heaviest first.

    It ends when the giver's load L has fallen to L′ with (L − L′) / L′ ≥ rate. The partner of a key
    is drawn. If this ratio would be more than 1.05 · rate then, it is the lightest partner with
    which it is not; if there is none, the key is left out. Where that does not suffice, all is
    done again from the beginning, and such a key swaps with the partner that is next to it.
    """
    if state.starts[taker + 1] == state.starts[taker]:
        return
    key_at, rank_of, loads = state.key_at.copy(), state.rank_of.copy(), state.loads.copy()
    if not _walk(state, giver, taker, rate, seed, False):
        state.key_at[:] = key_at
        state.rank_of[:] = rank_of
        state.loads[:] = loads
        _walk(state, giver, taker, rate, seed, True)


@dataclass(frozen=True)
class FluctuatingZipf(Zipf):
    """Zipf in which, at every new interval, keys of two workers swap frequencies.

    Frequencies stay the same, and the keys that have them change: at each interval the most loaded
    worker gives load to another one, which is drawn. From the heaviest down, each key of the giver
    swaps its frequency with a key drawn from the taker's, if that is lighter, until the giver's
    load has changed enough: |L_new − L_old| / L_new ≥ f. So f = 1 halves it, and the taker gets the
    half. Where the drawn key would make the change larger than 1.05 f, a heavier one is its
    partner, so the change is between the two wherever there are keys enough.

    **Reading of the paper**: its test names an instance d, not which; for f ≥ 1 only an instance
    that loses can pass it, so we ask it of the one that gives. Load is the expected one. Pairs
    of random keys would hardly ever reach f, as most keys are light, and neither would a worker
    that has nothing but light keys left; hence the order, and the choice of the giver. The paper
    gives no upper bound; without one all f below the share of the hottest key are the same. Where f
    is out of reach (z = 0: all frequencies are equal), the walk ends with the lightest key. An
    instance is the worker that `mixed` gives a key before it has learned anything, with the seed
    of the run. All strategies with a routing table, and `hash` with `ring=true`, have the same.

    Memory: 36 bytes per key of the domain, and 16 more while loads change. No other synthetic
    workload needs any.

    Parameters
    ----------
    z
        The exponent, from 0 (uniform).
    n_keys
        The size of the domain.
    n_records
        The length of the stream.
    interval
        Records between two changes.
    f
        The fluctuation rate, from 0 (none).
    n_workers
        Workers between which load shifts: as many as the run has.

    Examples
    --------
    >>> stream = FluctuatingZipf(z=2.0, n_keys=50, n_records=12, interval=4, n_workers=3)
    >>> next(stream.ranks(seed=1)).tolist()
    [6, 1, 2, 1, 2, 2, 3, 3, 4, 4, 4, 3]

    References
    ----------
    Mixed (Fang et al.), section V, "Synthetic Data", and table II for the defaults.
    """

    name: ClassVar[str] = "fluctuation"

    z: float = 0.85
    n_keys: int = 1_000_000
    n_records: int = 10_000_000
    interval: int = 1_000_000
    f: float = 1.0
    n_workers: int = 15

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "interval", self.interval >= 1, "at least 1")
        require(self, "f", self.f >= 0, "at least 0")
        require(self, "n_workers", self.n_workers >= 2, "at least 2")

    def first_owners(self, seed: int) -> SmallInts:
        """Return the worker that has each key in the first interval."""
        keys: Keys = np.empty(self.n_keys, np.uint64)
        hash_ranks(np.arange(1, self.n_keys + 1), keys)
        owners: SmallInts = np.empty(self.n_keys, np.int32)
        strategy = registry.make("mixed")
        strategy.route(keys, strategy.start(self.n_workers, seed_number(seed)), owners)
        return owners

    def start(self, seed: int) -> Frequencies:
        """Return the frequency of each key in the first interval: key i has rank i."""
        owners = self.first_owners(seed)
        by_rank = zipf_probabilities(self.z, self.n_keys)
        counts = np.bincount(owners, minlength=self.n_workers)
        loads: Floats = np.zeros(self.n_workers, np.float64)
        np.add.at(loads, owners, by_rank)
        return Frequencies(
            by_rank=by_rank,
            key_at=np.arange(self.n_keys),
            rank_of=np.arange(self.n_keys),
            owners=owners,
            members=np.argsort(owners, kind="stable"),
            starts=np.concatenate(([0], np.cumsum(counts))),
            loads=loads,
        )

    def advance(self, state: Frequencies, number: int, seed: int) -> None:
        """Change the frequencies of keys, as interval `number` (from 1) begins."""
        _, takers, swaps = draw_seeds(seed, 3)
        giver = int(state.loads.argmax())
        taker = (giver + 1 + int(draw(takers, number)) % (self.n_workers - 1)) % self.n_workers
        shift_load(state, giver, taker, float(self.f), np.uint64(draw(swaps, number)))

    def ranks(self, seed: int, chunk_size: int = CHUNK_SIZE) -> Iterator[Ints]:
        """Yield the key of each record, in order: key i has rank i in the first interval."""
        state = self.start(seed)
        first = done = 0
        for out in super().ranks(seed, chunk_size):
            for number, start, stop in segments(first, out.size, self.interval):
                if number > done:  # the chunk before may have ended inside this interval
                    self.advance(state, number, seed)
                    done = number
                out[start:stop] = state.key_at[out[start:stop] - 1] + 1
            first += out.size
            yield out
