"""Salting by hand as a strategy, for comparison: many jobs do this today."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from skewless.arrays import Ints, Keys, Words, Workers
from skewless.kernels.hashing import seed_array, seeded, to_worker
from skewless.plumbing.compiling import kernel
from skewless.strategy import Traits

_ONE = np.uint64(1)


class SaltState(NamedTuple):
    """How many salts were drawn, and what they are drawn from."""

    drawn: Words
    n_salts: Ints
    n_workers: Ints
    seeds: Words


@kernel
def _route(keys: Keys, state: SaltState, out: Workers) -> None:
    n_workers, n_salts = state.n_workers[0], state.n_salts[0]
    for i in range(keys.size):
        state.drawn[0] += _ONE
        salt = to_worker(seeded(state.drawn[0], state.seeds[2]), n_salts)
        hashed = seeded(seeded(keys[i], state.seeds[0]) ^ np.uint64(salt), state.seeds[1])
        out[i] = to_worker(hashed, n_workers)


@dataclass(frozen=True)
class Salting:
    """Hash the key together with a random number: `repartition(n, key, salt)`.

    Every key, hot or not, goes to up to `salts` workers. The salts are random, as `F.rand()` gives
    them: salts that cycle could follow a period of the keys, and look better than they are.

    Parameters
    ----------
    salts
        How many different numbers there are.

    Examples
    --------
    >>> out = np.empty(8, np.int32)
    >>> strategy = Salting(2)
    >>> strategy.route(np.zeros(8, np.uint64), strategy.start(100, seed=1), out)
    >>> len(set(out.tolist()))
    2
    """

    name: ClassVar[str] = "salt"

    salts: int

    @property
    def traits(self) -> Traits:
        """A key may be on several workers."""
        return Traits(family="splitting")

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> SaltState:
        """Return a state whose salts differ between sources."""
        seeds = seed_array(seed, 3)
        seeds[2] ^= np.uint64(source)
        return SaltState(
            np.zeros(1, np.uint64), np.array([self.salts]), np.array([n_workers]), seeds
        )

    def route(self, keys: Keys, state: SaltState, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        _route(keys, state, out)
