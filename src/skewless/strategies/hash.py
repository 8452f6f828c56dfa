"""Key grouping: every key has one worker, by hash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from skewless.arrays import Floats, Ints, Keys, Words, Workers, read_only
from skewless.kernels.hashing import seed_array, seeded, to_worker
from skewless.kernels.ring import Ring, owner, ring
from skewless.parameters import MOST_POINTS, check_types, require_count
from skewless.plumbing.compiling import kernel
from skewless.state import fixed
from skewless.strategies.rescaling import NamesItsMoves
from skewless.strategy import Traits


@fixed("seed", "n_workers", "members")
class HashState(NamedTuple):
    """The seed, and the ring (of one point when it is not used)."""

    seed: Words
    n_workers: Ints  # [including those that have left]
    ring: Ring
    members: Workers  # workers that have not left, in ascending order


@kernel
def _route_by_modulo(keys: Keys, state: HashState, out: Workers) -> None:
    seed = state.seed[0]
    n_members = state.members.size
    for i in range(keys.size):
        out[i] = to_worker(seeded(keys[i], seed), n_members)
    if n_members < state.n_workers[0]:  # rare, so the loop above has no second lookup
        for i in range(keys.size):
            out[i] = state.members[out[i]]


@kernel
def _route_by_ring(keys: Keys, state: HashState, out: Workers) -> None:
    seed = state.seed[0]
    for i in range(keys.size):
        out[i] = owner(state.ring, seeded(keys[i], seed))


@dataclass(frozen=True)
class Hash(NamesItsMoves):
    """Send every record of a key to the one worker that its hash names.

    This is what engines do by default, and the baseline for all other strategies: no replica, no
    table, no memory. The worker of the hottest key gets all of its records.

    **Guarantee**: one worker per key, the same for all sources. With the ring, a worker that
    joins or leaves changes the owner only of keys that it takes or gives.

    Parameters
    ----------
    ring
        Look the worker up on a consistent-hash ring. Without it the hash is cut into n equal
        ranges: faster and more even, but half of the keys or more move when n changes.
    virtual_nodes
        Points per worker on the ring; more make the shares more even.

    **Deviations from the paper**: none; "modulo" is computed as a multiplication and a shift.

    Examples
    --------
    >>> keys = np.array([1, 2, 3, 1, 1], np.uint64)
    >>> out = np.empty(5, np.int32)
    >>> strategy = Hash()
    >>> strategy.route(keys, strategy.start(4, seed=0), out)
    >>> out.tolist()
    [0, 2, 1, 0, 0]

    References
    ----------
    Karger et al., "Consistent hashing and random trees", STOC 1997 (the ring).
    """

    name: ClassVar[str] = "hash"

    ring: bool = False
    virtual_nodes: int = 128

    def __post_init__(self) -> None:
        check_types(self)
        require_count(self, "virtual_nodes", most=MOST_POINTS)

    @property
    def traits(self) -> Traits:
        """One worker per key."""
        return Traits(
            family="moving",
            fan_out=1,
            minimal_rescale=self.ring,
            any_may_leave=True,
            ignores_speeds=not self.ring,
        )

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> HashState:
        """Return the seed and, if asked for, the ring."""
        return self._with_workers(seed_array(seed, 2), n_workers, None, None)

    def _with_workers(
        self, seeds: Words, n_workers: int, capacities: Floats | None, unit: float | None
    ) -> HashState:
        speeds = np.ones(n_workers) if capacities is None else np.asarray(capacities)
        if self.ring:
            points = ring(n_workers, int(seeds[1]), self.virtual_nodes, speeds, unit)
        else:
            points = ring(1, int(seeds[1]), virtual_nodes=1)
        members = np.flatnonzero(speeds > 0).astype(np.int32)
        return HashState(seeds, np.array([n_workers]), points, members)

    def route(self, keys: Keys, state: HashState, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        if self.ring:
            _route_by_ring(read_only(keys), state, out)
        else:
            _route_by_modulo(read_only(keys), state, out)

    def rescale(
        self, state: HashState, n_workers: int, capacities: Floats | None = None
    ) -> HashState:
        """Return the state for other workers.

        Without the ring, capacities are ignored, except that a worker with capacity 0 leaves.
        """
        return self._with_workers(state.seed, n_workers, capacities, float(state.ring.unit[0]))
