"""Shuffle grouping: round robin, whatever the key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from skewless.arrays import Ints, Keys, Workers, read_only
from skewless.kernels.hashing import seed_array
from skewless.plumbing.compiling import kernel
from skewless.state import fixed, require_within
from skewless.strategies.rescaling import HashedAnew
from skewless.strategy import Traits


@fixed("n_workers")
class ShuffleState(NamedTuple):
    """The next worker of the round."""

    next_worker: Ints
    n_workers: Ints

    def check(self, fresh: ShuffleState) -> None:
        """Refuse a worker that does not exist."""
        require_within("next_worker", self.next_worker, 0, int(self.n_workers[0]) - 1)


@kernel
def _route(keys: Keys, state: ShuffleState, out: Workers) -> None:
    n_workers = state.n_workers[0]
    worker = state.next_worker[0]
    for i in range(keys.size):
        out[i] = worker
        worker += 1
        if worker == n_workers:
            worker = 0
    state.next_worker[0] = worker


@dataclass(frozen=True)
class Shuffle(HashedAnew):
    """Send the records to the workers in turn.

    Perfect balance at the highest price: a frequent key soon has a replica on every worker, and all
    of them must be merged.

    **Guarantee**: the loads that one source gives differ by at most 1.

    **Deviations from the paper**: none. Each source begins its round at another worker, so that
    the remainders of many sources do not add up on worker 0.

    Examples
    --------
    >>> out = np.empty(5, np.int32)
    >>> strategy = Shuffle()
    >>> strategy.route(np.zeros(5, np.uint64), strategy.start(3, seed=1), out)
    >>> out.tolist()
    [0, 1, 2, 0, 1]

    References
    ----------
    The "shuffle grouping" of Apache Storm; SG in the papers.
    """

    name: ClassVar[str] = "shuffle"
    traits: ClassVar[Traits] = Traits(family="splitting", ignores_speeds=True)

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> ShuffleState:
        """Return a round whose first worker differs by source."""
        first = (int(seed_array(seed, 1)[0] % np.uint64(n_workers)) + source) % n_workers
        return ShuffleState(np.array([first]), np.array([n_workers]))

    def route(self, keys: Keys, state: ShuffleState, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        _route(read_only(keys), state, out)

    def _kept(self, state: ShuffleState, fresh: ShuffleState) -> dict[str, Any]:
        """Return the next worker of the round."""
        return {"next_worker": state.next_worker % fresh.n_workers}
