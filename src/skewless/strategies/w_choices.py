"""W-Choices: hot keys may go to every worker, the others have two candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from skewless.arrays import Ints, Keys, Words, Workers, read_only
from skewless.kernels.hashing import seed_array, seeded, two_workers
from skewless.kernels.least_loaded import floor_cursor, least_count, require_cursor
from skewless.kernels.space_saving import Head, head, is_hot
from skewless.kernels.two_choices import send_to_lighter
from skewless.parameters import check_types, require_head
from skewless.plumbing.compiling import kernel
from skewless.state import require_same
from skewless.strategy import Traits


class WChoicesState(NamedTuple):
    """What this source has sent to each worker, and its hot keys."""

    seed: Words
    loads: Ints
    floor: Ints
    head: Head

    def check(self, fresh: WChoicesState) -> None:
        """Refuse another hash, and a cursor that is out of range."""
        require_same("seed", self.seed, fresh.seed)
        require_cursor(self.loads, self.floor)


@kernel
def _route(keys: Keys, state: WChoicesState, out: Workers) -> None:
    seed = state.seed[0]
    loads = state.loads
    for i in range(keys.size):
        if is_hot(state.head, keys[i]):
            worker = least_count(loads, state.floor)
            loads[worker] += 1
            out[i] = worker
        else:
            first, second = two_workers(seeded(keys[i], seed), loads.size)
            out[i] = send_to_lighter(loads, first, second)


@dataclass(frozen=True)
class WChoices:
    """Send hot keys to the least loaded of all workers, the others as `pkg` does.

    A key is hot when it has more than `hot_factor` / n of this source's records so far, by a
    SpaceSaving summary. So no key is too heavy for its workers, and the tail stays on two.

    **Guarantee**: a key whose share never exceeds `hot_factor` / n − 1 / `capacity` has at most
    two workers. With the default capacity this holds for no key; set a larger one to have it.

    Parameters
    ----------
    hot_factor
        A key is hot above this share of a worker's fair load: θ = `hot_factor` / n.
    capacity
        Keys that the summary holds; None means n / `hot_factor`, the fewest that can tell hot
        from cold. 100, as in public code, is too few for more than 20 workers.

    **Deviations from the paper**: the least loaded worker is found by a cursor instead of a scan
    (same worker, lowest index on a tie).

    Examples
    --------
    >>> out = np.empty(6, np.int32)
    >>> strategy = WChoices()
    >>> strategy.route(np.zeros(6, np.uint64), strategy.start(4, seed=0), out)
    >>> out.tolist()
    [0, 1, 2, 3, 0, 1]

    References
    ----------
    Nasir et al., "When two choices are not enough: balancing at scale in distributed stream
    processing", ICDE 2016.
    """

    name: ClassVar[str] = "w-choices"
    traits: ClassVar[Traits] = Traits(family="splitting")

    hot_factor: float = 0.2
    capacity: int | None = None

    def __post_init__(self) -> None:
        check_types(self)
        require_head(self)

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> WChoicesState:
        """Return the state of a source that has sent nothing."""
        loads = np.zeros(n_workers, np.int64)
        return WChoicesState(
            seed_array(seed, 1),
            loads,
            floor_cursor(loads),
            head(n_workers, self.hot_factor, self.capacity),
        )

    def route(self, keys: Keys, state: WChoicesState, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        _route(read_only(keys), state, out)
