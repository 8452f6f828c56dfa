"""DKG: heavy keys, and buckets of light ones, each mapped to a worker by a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from skewless.arrays import Floats, Ints, Keys, SmallInts, Words, Workers, read_only
from skewless.kernels.hashing import hashed_workers, seed_array, seeded, to_worker
from skewless.kernels.key_table import ABSENT, KeyTable, get, key_table, put_all
from skewless.kernels.least_loaded import first_least
from skewless.kernels.space_saving import SpaceSaving, entries, offer, space_saving
from skewless.moves import moves_between, rest_by_worker
from skewless.parameters import MOST_POINTS, check_types, require, require_all_stay, require_count
from skewless.plumbing.compiling import kernel
from skewless.state import MOST_COUNTED, fixed, require_within, within
from skewless.strategies.rescaling import NamesItsMoves
from skewless.strategy import Moves, Report, Traits


@fixed("seed", "n_workers")
@within(0, MOST_COUNTED, "learned")
class DKGState(NamedTuple):
    """The plan: the worker of each heavy key, and of each bucket of the others."""

    seed: Words
    heavy: KeyTable  # key -> worker
    buckets: SmallInts  # bucket -> worker
    n_workers: Ints
    learned: Ints  # [reports that a plan was made from]

    def check(self, fresh: DKGState) -> None:
        """Refuse workers that do not exist."""
        most = int(self.n_workers[0]) - 1
        require_within("heavy", self.heavy.values, ABSENT, most)
        require_within("buckets", self.buckets, 0, most)


@kernel
def _route(keys: Keys, state: DKGState, out: Workers) -> None:
    seed = state.seed[0]
    for i in range(keys.size):
        worker = get(state.heavy, keys[i])
        if worker == ABSENT:
            worker = state.buckets[to_worker(seeded(keys[i], seed), state.buckets.size)]
        out[i] = worker


@kernel
def _offer_all(summary: SpaceSaving, keys: Keys, loads: Floats) -> None:
    for i in range(keys.size):
        if loads[i] > 0.0:  # state without records: nothing to learn from
            offer(summary, keys[i], loads[i])


@kernel
def assign(loads: Floats, order: Ints, totals: Floats, out: SmallInts) -> None:
    """Give each load, in this order, to the worker with the least total, lowest index first."""
    for i in range(order.size):
        best = first_least(totals)
        totals[best] += loads[order[i]]
        out[order[i]] = best


def _by_bucket(rest: Floats, workers: SmallInts) -> Floats:
    """Return the rest by bucket: the rest of a worker is spread evenly over its buckets.

    If a worker has no bucket, its rest comes from heavy keys that had little load. All buckets
    share it.
    """
    n_buckets = np.bincount(workers, minlength=rest.size)
    homeless = float(rest[n_buckets == 0].sum())
    spread: Floats = (rest / np.maximum(n_buckets, 1))[workers] + homeless / workers.size
    return spread


def _deal(buckets: SmallInts, n_old: int, n_workers: int) -> None:
    """Give away the buckets of workers that left, and a fair part to workers from `n_old` on."""
    counts = np.bincount(buckets, minlength=n_workers)[:n_workers]
    for bucket in np.flatnonzero(buckets >= n_workers):
        buckets[bucket] = np.argmin(counts)
        counts[buckets[bucket]] += 1
    while n_old < n_workers:
        giver, taker = int(np.argmax(counts[:n_old])), n_old + int(np.argmin(counts[n_old:]))
        if counts[giver] <= counts[taker] + 1:
            return
        buckets[np.argmax(buckets == giver)] = taker
        counts[[giver, taker]] += (-1, 1)


@dataclass(frozen=True)
class DKG(NamesItsMoves):
    """Learn the heavy keys and the weight of buckets of light ones, then schedule both.

    A SpaceSaving summary finds keys above a share θ; all others are hashed into κ·n buckets, which
    are far more even than keys. Heavy keys and buckets are then jobs for n workers: the heaviest
    first, each to the worker with the least so far. From then on the map is fixed.

    **Guarantee**: one worker per key, the same for all sources. On the window it learned from,
    the heaviest worker has at most 4/3 − 1/(3n) of what any assignment of the same heavy keys and
    buckets could reach.

    Parameters
    ----------
    theta
        A key is heavy from this share of a worker's fair load on: θ = `theta` / n.
    epsilon
        Error of the summary, in parts of θ: it holds n / (`theta` · `epsilon`) keys. At most ½, as
        in the paper, or light keys pass for heavy ones.
    buckets
        κ: buckets per worker for the light keys.

    **Deviations from the paper**: what it learns from is a window's report, with loads as
    weights, so records need not cost the same; the paper reads the records of a learning phase.
    Before that, the map is a plain hash. θ is relative to 1/n, so that it fits any n. What
    SpaceSaving overestimates is not taken from the buckets: their loads are exact here, since the
    report names every key. Where it leaves keys out, the rest of a worker is spread evenly over the
    buckets of that worker, and the bound holds as far as that is true.

    Examples
    --------
    >>> strategy = DKG()
    >>> state = strategy.start(2, seed=0)
    >>> keys = np.arange(1, 7, dtype=np.uint64)
    >>> report = Report(keys, np.array([9.0, 6.0, 3.0, 1.0, 1.0, 1.0]), np.ones(6))
    >>> state, moves = strategy.rebalance(report, state)
    >>> out = np.empty(6, np.int32)
    >>> strategy.route(keys, state, out)
    >>> np.bincount(out, weights=report.loads).tolist()
    [11.0, 10.0]

    References
    ----------
    Rivetti, Querzoni, Anceaume, Busnel, Sericola, "Efficient key grouping for near-optimal load
    balancing in stream processing systems", DEBS 2015. The bound: R. Graham, "Bounds on
    multiprocessing timing anomalies", SIAM Journal on Applied Mathematics 17(2), 1969.
    """

    name: ClassVar[str] = "dkg"
    traits: ClassVar[Traits] = Traits(
        family="moving", fan_out=1, minimal_rescale=True, moves_unnamed=True, ignores_speeds=True
    )

    theta: float = 0.5
    epsilon: float = 0.5
    buckets: int = 2

    def __post_init__(self) -> None:
        check_types(self)
        require(self, "theta", self.theta >= 1e-6, "at least 1e-6")
        require(self, "epsilon", 1e-6 <= self.epsilon <= 0.5, "from 1e-6 to 0.5")
        require_count(self, "buckets", most=MOST_POINTS)

    def start(self, n_workers: int, seed: int, *, source: int = 0) -> DKGState:
        """Return a plan without heavy keys, with buckets dealt to the workers in turn: a hash."""
        return DKGState(
            seed=seed_array(seed, 1),
            heavy=key_table(self._capacity(n_workers)),
            buckets=np.arange(self.buckets * n_workers, dtype=np.int32) % np.int32(n_workers),
            n_workers=np.array([n_workers]),
            learned=np.zeros(1, np.int64),
        )

    def _capacity(self, n_workers: int) -> int:
        return int(np.ceil(n_workers / (self.theta * self.epsilon)))

    def route(self, keys: Keys, state: DKGState, out: Workers) -> None:
        """Fill `out` with the worker of each record."""
        _route(read_only(keys), state, out)

    def rebalance(self, report: Report, state: DKGState) -> tuple[DKGState, Moves]:
        """Make a plan from the first report."""
        origins = np.empty(report.keys.size, np.int32)
        _route(read_only(report.keys), state, origins)
        rest = rest_by_worker(report, int(state.n_workers[0]))
        total = float(report.loads.sum()) + float(rest.sum())
        if total > 0 and state.learned[0] == 0:
            state = self._plan(report, rest, total, state)
        targets = np.empty(report.keys.size, np.int32)
        _route(read_only(report.keys), state, targets)
        return state, moves_between(report.keys, origins, targets)

    def rescale(
        self, state: DKGState, n_workers: int, capacities: Floats | None = None
    ) -> DKGState:
        """Return the state for another number of workers; differences in speed are ignored.

        Workers that join take buckets from those with most, and those that leave give theirs to
        those with fewest; a heavy key of one that leaves goes to its bucket. The next report leads
        to a new plan.
        """
        require_all_stay(self.name, capacities)
        known = np.flatnonzero((state.heavy.values != ABSENT) & (state.heavy.values < n_workers))
        heavy = key_table(self._capacity(n_workers))
        if heavy.keys.size < state.heavy.keys.size:  # it never shrinks, so all that stay have room
            heavy = key_table(state.heavy.keys.size // 2)
        put_all(heavy, state.heavy.keys[known], state.heavy.values[known])
        # A bucket is a range of hashes: cut into equal parts, it has the same keys on one worker.
        parts = -(-self.buckets * n_workers // state.buckets.size)
        buckets = np.repeat(state.buckets, parts)
        _deal(buckets, min(int(state.n_workers[0]), n_workers), n_workers)
        return DKGState(
            state.seed.copy(), heavy, buckets, np.array([n_workers]), np.zeros(1, np.int64)
        )

    def _plan(self, report: Report, rest: Floats, total: float, state: DKGState) -> DKGState:
        n_workers = int(state.n_workers[0])
        summary = space_saving(self._capacity(n_workers))
        _offer_all(summary, report.keys, report.loads)
        bucket_of = hashed_workers(report.keys, state.seed, state.buckets.size)
        buckets = np.zeros(state.buckets.size)
        np.add.at(buckets, bucket_of, report.loads)

        keys, estimates, _ = entries(summary)
        heavy = keys[estimates >= self.theta / n_workers * total]
        places = np.searchsorted(report.keys, heavy)
        np.subtract.at(buckets, bucket_of[places], report.loads[places])

        buckets = np.maximum(buckets, 0.0) + _by_bucket(rest, state.buckets)
        loads = np.concatenate([report.loads[places], buckets])
        order = np.argsort(-loads, kind="stable")
        workers = np.empty(loads.size, np.int32)
        assign(loads, order, np.zeros(n_workers), workers)

        table = key_table(state.heavy.keys.size // 2)
        put_all(table, heavy, workers[: heavy.size])
        return state._replace(
            heavy=table, buckets=workers[heavy.size :].copy(), learned=state.learned + 1
        )
