"""The DKG of PStream's comparison, which splits hot keys; the strategy `dkg` keeps keys whole.

PStream's section 2 says what its reference 21 does (Balkesen, Tatbul, Özsu, DEBS 2013): records of
a hot key are split evenly into parts, as many as its frequency demands; frequencies come from a
sample, and do not follow the stream. Not stated, and chosen here: the sample is the beginning of
the stream, during which keys are hashed; a part has at most the fair load of a worker; the parts of
a key are on neighbouring workers, from the one that its hash names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from experiments.reproduction.cells import Simulation
from skewless.arrays import Ints, Keys, Words, Workers
from skewless.kernels.hashing import draw, seed_array, seeded, to_worker
from skewless.kernels.key_table import KeyTable, get, key_table, put
from skewless.parameters import check_types, require
from skewless.plumbing.compiling import kernel
from skewless.strategy import Traits


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
    """Split each key into parts of at most the fair load, by the first `sample` records."""

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
