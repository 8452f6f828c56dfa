"""What strategies share when workers come and go: numbers of workers, and small ways to rescale."""

from __future__ import annotations

from typing import Any

import numpy as np

from skewless.arrays import Floats, Keys, Workers
from skewless.kernels.hashing import hashed_workers
from skewless.moves import Moves, moves_between
from skewless.parameters import require_all_stay


def places(capacities: Floats) -> Workers | None:
    """Return the workers that are there, in the order in which a strategy numbers them.

    For a strategy that can lose only its last workers. Workers keep their numbers, but the last
    ones take the numbers of those that have left, whose capacity is 0. None: no worker has left.

    >>> places(np.array([1.0, 0.0, 1.0, 0.0, 1.0, 1.0])).tolist()
    [0, 5, 2, 4]
    """
    there = np.flatnonzero(capacities).astype(np.int32)
    if there.size == capacities.size:
        return None
    found = np.arange(there.size, dtype=np.int32)
    found[~np.isin(found, there)] = there[there >= there.size][::-1]
    return found


class HashedAnew:
    """The `rescale` of strategies that hash; `_kept` says what of a state is still true after it.

    What was sent before says nothing about a key's new candidates. So loads and windows begin anew,
    as those of a source that has sent nothing. Only the seed stays, and the hot keys of a strategy
    that remembers them.
    """

    def rescale(self: Any, state: Any, n_workers: int, capacities: Floats | None = None) -> Any:
        """Return the state for another number of workers; differences in speed are ignored.

        All keys are hashed anew, so half of them or more change worker. Loads begin anew.
        """
        require_all_stay(self.name, capacities)
        fresh = self.start(n_workers, 0)
        return fresh._replace(**self._kept(state, fresh))

    def _kept(self, state: Any, fresh: Any) -> dict[str, Any]:
        """Return the fields that stay as they are; `fresh` is a state for the new workers."""
        return {"seed": state.seed.copy()}


class HashedHomes(HashedAnew):
    """The `homes` of strategies that hash cold keys, or send them to the lighter of two workers."""

    def homes(self, keys: Keys, state: Any) -> Workers:
        """Return the worker of each key's hash, which is the first of two candidates.

        Where there are two, half of the keys with one record are not at home.
        """
        return hashed_workers(keys, state.seed, state.loads.size)


class NamesItsMoves:
    """The `rescale_keys` of the moving family, whose routing changes no state."""

    def rescale_keys(
        self: Any, keys: Keys, state: Any, n_workers: int, capacities: Floats | None = None
    ) -> tuple[Any, Moves]:
        """Return the state for other workers, and which of `keys` change worker by it."""
        rescaled = self.rescale(state, n_workers, capacities)
        before, after = np.empty(keys.size, np.int32), np.empty(keys.size, np.int32)
        self.route(keys, state, before)
        self.route(keys, rescaled, after)
        return rescaled, moves_between(keys, before, after)
