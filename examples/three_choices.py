"""A strategy of one's own: the least loaded of three hashed workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from skewless import Traits, kernel
from skewless.arrays import Ints, Keys, Words, Workers
from skewless.kernels.hashing import seed_array, seeded, to_worker


class ThreeChoicesState(NamedTuple):
    """Arrays only: one seed per choice, and what this source has sent to each worker."""

    seeds: Words
    loads: Ints


@kernel
def _route(keys: Keys, state: ThreeChoicesState, out: Workers) -> None:
    loads = state.loads
    for i in range(keys.size):
        best = to_worker(seeded(keys[i], state.seeds[0]), loads.size)
        for choice in range(1, state.seeds.size):
            worker = to_worker(seeded(keys[i], state.seeds[choice]), loads.size)
            if loads[worker] < loads[best]:
                best = worker
        loads[best] += 1
        out[i] = best


@dataclass(frozen=True)
class ThreeChoices:
    """Send each record to the least loaded of its key's three hashed workers."""

    name: ClassVar[str] = "three-choices"

    @property
    def traits(self) -> Traits:
        """At most three workers per key, whose partial results are merged afterwards."""
        return Traits(family="splitting", fan_out=3)

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> ThreeChoicesState:
        """Return the state of a source that has sent nothing."""
        return ThreeChoicesState(seed_array(seed, 3), np.zeros(n_workers, np.int64))

    def route(self, keys: Keys, state: ThreeChoicesState, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        _route(keys, state, out)
