"""Salting by hand as a strategy, for comparison: many jobs do this today."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from skewless._jit import kernel
from skewless.arrays import Ints, Keys, Words, Workers
from skewless.kernels.hashing import seed_array, seeded, to_worker
from skewless.strategy import Traits


class SaltState(NamedTuple):
    """The salt of the next record."""

    next_salt: Ints
    n_salts: Ints
    n_workers: Ints
    seeds: Words


@kernel
def _route(keys: Keys, state: SaltState, out: Workers) -> None:
    n_workers, n_salts = state.n_workers[0], state.n_salts[0]
    salt = state.next_salt[0]
    for i in range(keys.size):
        hashed = seeded(seeded(keys[i], state.seeds[0]) ^ np.uint64(salt), state.seeds[1])
        out[i] = to_worker(hashed, n_workers)
        salt += 1
        if salt == n_salts:
            salt = 0
    state.next_salt[0] = salt


@dataclass(frozen=True)
class Salting:
    """Hash the key together with a number that cycles: `repartition(n, key, salt)`.

    Every key, hot or not, goes to up to `salts` workers.

    Parameters
    ----------
    salts
        How many different numbers there are.

    Examples
    --------
    >>> out = np.empty(8, np.int32)
    >>> strategy = Salting(2)
    >>> strategy.route(np.zeros(8, np.uint64), strategy.start(100, seed=1), out)
    >>> out.tolist() == out[:2].tolist() * 4
    True
    """

    name: ClassVar[str] = "salt"

    salts: int

    @property
    def traits(self) -> Traits:
        """A key may be on several workers."""
        return Traits(family="splitting")

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> SaltState:
        """Return a state whose first salt differs between sources."""
        return SaltState(
            np.array([source % self.salts]),
            np.array([self.salts]),
            np.array([n_workers]),
            seed_array(seed, 2),
        )

    def route(self, keys: Keys, state: SaltState, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        _route(keys, state, out)
