"""The ideal: what an oracle that sees a whole batch before it decides can reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from skewless.arrays import Ints, Keys, Words, Workers, read_only
from skewless.kernels.hashing import seed_array, seeded_all
from skewless.state import MOST_COUNTED, fixed, require_within, within
from skewless.strategies.rescaling import HashedAnew
from skewless.strategy import Traits


@fixed("seed")
@within(0, MOST_COUNTED, "loads")
class IdealState(NamedTuple):
    """What this source has sent to each worker."""

    seed: Words
    loads: Ints

    def check(self, fresh: IdealState) -> None:
        """Refuse loads that differ by more than one."""
        least = int(self.loads.min())
        require_within("loads", self.loads, least, least + 1)


def fair_shares(loads: Ints, n_records: int) -> Ints:
    """Deal out the next records, so that no two loads differ by two.

    `loads` differ by at most one now. If some workers must get one more record, those that are
    ahead already come first; of equals, the lowest index.

    >>> fair_shares(np.array([1, 0, 0]), 3).tolist()
    [1, 1, 1]
    """
    each, more = divmod(int(loads.sum()) + n_records, loads.size)
    after = np.full(loads.size, each, np.int64)
    after[np.argsort(-loads, kind="stable")[:more]] += 1
    return after - loads


@dataclass(frozen=True)
class Ideal(HashedAnew):
    """Lay the keys of a batch in a row and cut the row into n equal pieces, one per worker.

    This is McNaughton's wrap-around rule for machines that may interrupt a job: a key is split
    only where a cut goes through it, and there are n − 1 cuts. It sees the batch before it
    decides, which no strategy for streams can. It is the limit for their results.

    **Guarantee**: after every batch the loads of a source differ by at most one record, and of
    the keys in the batch at most n − 1 are split: Σ (workers of the key − 1) ≤ n − 1.

    The row is in order of the keys' seeded hashes. So a key keeps about its place from batch to
    batch, and its worker too, unless it is near a cut; nothing about keys is remembered.

    **Deviations from the paper**: jobs there are not to run on two machines at once, hence the
    longest must fit into the row's piece. Records of one key may, so the rule needs no exception.

    Examples
    --------
    >>> out = np.empty(6, np.int32)
    >>> strategy = Ideal()
    >>> strategy.route(np.array([7, 7, 7, 7, 8, 9], np.uint64), strategy.start(3, seed=0), out)
    >>> out.tolist()
    [1, 1, 2, 2, 0, 0]

    References
    ----------
    R. McNaughton, "Scheduling with deadlines and loss functions", Management Science 6(1), 1959,
    the wrap-around rule.
    """

    name: ClassVar[str] = "ideal"
    traits: ClassVar[Traits] = Traits(
        family="splitting", decides="batch", gathers=True, ignores_speeds=True
    )

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> IdealState:
        """Return the state of a source that has sent nothing."""
        return IdealState(seed_array(seed, 1), np.zeros(n_workers, np.int64))

    def route(self, keys: Keys, state: IdealState, out: Workers) -> None:
        """Fill `out` with the worker of each record of this batch."""
        hashes = np.empty(keys.size, np.uint64)
        seeded_all(read_only(keys), state.seed, hashes)
        shares = fair_shares(state.loads, keys.size)
        # Stable: the records of a key that is cut are dealt out in the order of the stream.
        row = np.argsort(hashes, kind="stable")
        out[row] = np.repeat(np.arange(shares.size, dtype=np.int32), shares)
        state.loads[:] += shares
