"""Partial key grouping: the power of two choices, for keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from skewless.arrays import Ints, Keys, Words, Workers, read_only
from skewless.kernels.hashing import seed_array, seeded, two_workers
from skewless.kernels.least_loaded import send_to_lighter
from skewless.plumbing.compiling import kernel
from skewless.state import MOST_COUNTED, fixed, within
from skewless.strategies.rescaling import HashedHomes
from skewless.strategy import Traits


@fixed("seed")
@within(0, MOST_COUNTED, "loads")
class PartialKeyState(NamedTuple):
    """What this source has sent to each worker."""

    seed: Words
    loads: Ints


@kernel
def _route(keys: Keys, state: PartialKeyState, out: Workers) -> None:
    seed = state.seed[0]
    loads = state.loads
    n_workers = loads.size
    for i in range(keys.size):
        first, second = two_workers(seeded(keys[i], seed), n_workers)
        out[i] = send_to_lighter(loads, first, second)


@dataclass(frozen=True)
class PartialKey(HashedHomes):
    """Send each record to the less loaded of its key's two hashed workers.

    No table and no memory of keys: both candidates follow from the hash, and each source looks
    only at what it has sent itself.

    **Guarantee**: at most two workers per key. While no key has more than 1/(5n) of the records,
    the imbalance is bounded by a constant, where that of hashing grows with n. A key with a share p
    above 2/n is too much for two workers: the imbalance is then at least p·n/2 − 1.

    **Deviations from the paper**: none. The two candidates may be the same worker, as in the
    authors' simulator.

    Examples
    --------
    >>> out = np.empty(4, np.int32)
    >>> strategy = PartialKey()
    >>> strategy.route(np.ones(4, np.uint64), strategy.start(8, seed=0), out)
    >>> out.tolist()
    [0, 4, 0, 4]

    References
    ----------
    Nasir et al., "The power of both choices: practical load balancing for distributed stream
    processing engines", ICDE 2015.
    """

    name: ClassVar[str] = "pkg"
    traits: ClassVar[Traits] = Traits(family="splitting", fan_out=2, ignores_speeds=True)

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> PartialKeyState:
        """Return the state of a source that has sent nothing."""
        return PartialKeyState(seed_array(seed, 1), np.zeros(n_workers, np.int64))

    def route(self, keys: Keys, state: PartialKeyState, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        _route(read_only(keys), state, out)
