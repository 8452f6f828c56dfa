"""What each way of partitioning would do with a job: strategies, and what needs none.

`WAYS` is the one table of the ways that need no strategy. A new way is a new entry: where it sends
the records, how they get there, and how the advice describes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from skewless import metrics, registry
from skewless.arrays import Keys, Workers
from skewless.diagnosis.costs import Moving
from skewless.diagnosis.job import Job, SampledKeys
from skewless.kernels.hashing import keyed, seed_array
from skewless.planning.packing import KeyCounts, buckets_of, first_homes, pack
from skewless.plumbing.arguments import shown
from skewless.simulator import simulate
from skewless.strategy import AnyStrategy

#: What plain Spark does, and what everything is compared with.
BASELINE = "hash"
ROUND_ROBIN, SALT, HOT_SALT, LOCAL = "round-robin", "salt", "hot-salt", "local"
#: Counted first: keys that fit whole on no worker are split, or no key is.
PLAN, WHOLE_PLAN = "plan", "whole-plan"
#: The limit: it knows later records. Shown on request, never advised.
LIMIT = "ideal"
#: One or two of each idea; most others are variants of these.
WORTHWHILE = (
    *(BASELINE, "shuffle", "pkg", "w-choices", "fish"),
    *("pd-stream", "cascade", "cascade-ahead", "mixed"),
)
#: The family of the ways that need no strategy.
PLAIN = "plain Spark"
#: The family of the ways that count keys beforehand.
PLANNED = "planned"
#: The ways of a batch that keep each key on one worker.
KEEP_KEYS = frozenset({BASELINE, WHOLE_PLAN})
_SALTS = (2, 4, 8, 16, 32)
_HOT_SALTS = (8, 32)
#: A key with more than this part of a worker's fair share is hot.
HOT = 0.5
#: A key with less than this part of it is not listed in a plan.
_LISTED = 1 / 128
_STREAM_SOURCES = 4
_STREAM_RECORDS = 200_000
_MICRO_BATCHES = 20


class Way(NamedTuple):
    """A way of partitioning that needs no strategy."""

    how: str  # in the advice, with {workers} and {number}, which is the last part of its name
    moving: Moving
    send: Callable[[Job], Iterator[tuple[str, Workers, int]]]  # names, workers, places
    family: str = PLAIN


def _by_hash(job: Job) -> Iterator[tuple[str, Workers, int]]:
    hashed = job.sample.hashed
    workers = routed(job, registry.make(BASELINE)) if hashed is None else hashed
    yield BASELINE, workers, job.n_workers


def _in_turn(job: Job) -> Iterator[tuple[str, Workers, int]]:
    """`repartition(n)`: each partition deals its records out in turn."""
    workers = np.empty(job.sample.n_records, np.int32)
    for partition, records in enumerate(job.sample.sources()):
        size = records.stop - records.start
        workers[records] = (np.arange(size) + partition) % job.n_workers
    yield ROUND_ROBIN, workers, job.n_workers


def _salted(job: Job) -> Iterator[tuple[str, Workers, int]]:
    """`repartition(n, key, salt)` with salts by `F.rand()`.

    Salts that cycle could follow a period of the keys, and look better than they are.
    """
    random = np.random.default_rng(0)
    for n_salts in _SALTS:
        if n_salts > job.n_workers:
            break
        salts = random.integers(0, n_salts, job.sample.n_records, np.uint64)
        yield f"{SALT}-{n_salts}", _salted_workers(job, salts), job.n_workers


def _hot_salted(job: Job) -> Iterator[tuple[str, Workers, int]]:
    """The same with salts for hot keys only, as people write it by hand."""
    distinct, index = job.sample.distinct
    fair = job.sample.n_records / job.n_workers
    is_hot = (np.bincount(index, minlength=distinct.size) > HOT * fair)[index]
    random = np.random.default_rng(0)
    for n_salts in _HOT_SALTS:
        if n_salts > job.n_workers and n_salts != _HOT_SALTS[0]:
            break
        salts = np.where(is_hot, random.integers(0, n_salts, index.size), 0).astype(np.uint64)
        yield f"{HOT_SALT}-{n_salts}", _salted_workers(job, salts), job.n_workers


def _salted_workers(job: Job, salts: Keys) -> Workers:
    hashes = np.empty_like(salts)
    keyed(job.sample.keys, salts, seed_array(0, 2), hashes)
    workers: Workers = (hashes % np.uint64(job.n_workers)).astype(np.int32)
    return workers


def _planned(job: Job, name: str, whole_keys: bool) -> Iterator[tuple[str, Workers, int]]:
    """By a plan of these keys; records of split keys are dealt at random."""
    (distinct, index), n = job.sample.distinct, job.n_workers
    counts = np.bincount(index, minlength=distinct.size).astype(np.float64)
    counts += job.pair_in_records
    homes = first_homes(n)
    buckets = buckets_of(distinct, homes.size)
    listed = np.flatnonzero(counts >= _LISTED * counts.sum() / n)
    loads = np.bincount(buckets, counts, homes.size).astype(np.float64)
    known = KeyCounts(distinct[listed], counts[listed], loads, distinct.size)
    packed = pack(known, n, whole_keys=whole_keys)
    of_key = packed.homes[buckets]
    for key, pieces in packed.placed:
        of_key[listed[key]] = pieces[0].worker
    workers: Workers = of_key[index]
    random = np.random.default_rng(0)
    for key, pieces in packed.placed:
        if len(pieces) > 1:
            records = np.flatnonzero(index == listed[key])
            shares = np.array([share for _, share in pieces])
            chosen = random.choice([worker for worker, _ in pieces], records.size, p=shares)
            workers[records] = chosen
    yield name, workers, n


def _as_they_are(job: Job) -> Iterator[tuple[str, Workers, int]]:
    """The partitions as they are; one partition on eight slots leaves seven of them idle."""
    sizes = [records.stop - records.start for records in job.sample.sources()]
    places = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    yield LOCAL, places, max(1, len(sizes), job.n_slots)


#: The ways that need no strategy. A name may end with a number: `salt-4`.
WAYS = {
    BASELINE: Way("plain Spark by key", Moving.SHUFFLED, _by_hash),
    ROUND_ROBIN: Way("a plain repartition({workers}) without a key", Moving.DEALT, _in_turn),
    SALT: Way("salting by {number}", Moving.SHUFFLED, _salted),
    HOT_SALT: Way("salting of hot keys by {number}", Moving.PLANNED, _hot_salted),
    PLAN: Way(
        *("route, which plans first,", Moving.PLANNED),
        *(partial(_planned, name=PLAN, whole_keys=False), PLANNED),
    ),
    WHOLE_PLAN: Way(
        *("a plan of whole keys by plan_keys", Moving.PLANNED),
        *(partial(_planned, name=WHOLE_PLAN, whole_keys=True), PLANNED),
    ),
    LOCAL: Way(
        "the work on the partitions as they are, without a shuffle,", Moving.NONE, _as_they_are
    ),
}


@dataclass(frozen=True)
class Prediction:
    """What a strategy would do; `skewless.metrics` defines the numbers.

    `imbalance` and `replication` are for all records at once, as in a batch job. There, strategies
    that move keys do the same as `hash`, since keys move between micro-batches. `seconds` is the
    time of the batch job by the costs that were given or measured; None without costs. `makespan`
    is for a stream: the time of the same records as micro-batches, each as long as its slowest
    worker, divided by the time with perfect balance. Micro-batches are short, so chance makes all
    makespans longer: compare them only with each other.
    """

    strategy: str
    family: str
    imbalance: float
    replication: float
    makespan: float | None = None
    seconds: float | None = None

    def how(self, workers: int | None) -> str:
        """Return how the advice describes this way of partitioning."""
        if self.way is None:
            return f"strategy={self.strategy!r}"
        number = self.strategy.rpartition("-")[2]
        return WAYS[self.way].how.format(workers=workers, number=number)

    @property
    def way(self) -> str | None:
        """The name of the way in `WAYS`, without a number; None if this is a strategy."""
        name, _, number = self.strategy.rpartition("-")
        name = name if number.isdecimal() else self.strategy
        return name if name in WAYS and WAYS[name].family == self.family else None


def chosen_strategies(wanted: str | Iterable[str | AnyStrategy] | None) -> list[AnyStrategy]:
    """Return the strategies by name, the baseline first whether it was asked for or not."""
    if wanted is None:
        names: Sequence[str | AnyStrategy] = WORTHWHILE
    elif isinstance(wanted, str):
        names = registry.names() if wanted == "all" else [wanted]
    else:
        try:
            names = list(wanted)
        except TypeError:
            raise ValueError(
                f"strategies must be names or strategies, or 'all', not {shown(wanted)}"
            ) from None
    made = [registry.strategy_of(name, "strategies") for name in names]
    rest = [strategy for strategy in made if strategy.name != BASELINE]
    return [registry.make(BASELINE), *rest]


def predict(job: Job, strategies: Iterable[AnyStrategy]) -> tuple[Prediction, ...]:
    """Build a prediction for each strategy of `chosen_strategies`, then for each way without one.

    By hash, records go where the engine sends them, if that is known.
    """
    found = []
    baseline, *others = WAYS.values()
    for strategy in strategies:
        if strategy.name == BASELINE:
            sent, moving, family = next(baseline.send(job)), baseline.moving, PLAIN
        else:
            sent = strategy.name, routed(job, strategy), job.n_workers
            moving, family = Moving.ROUTED, strategy.traits.family
        found.append(_prediction(job, *sent, moving, family, strategy))
    for way in others:
        found += [_prediction(job, *sent, way.moving, way.family) for sent in way.send(job)]
    return tuple(found)


def routed(job: Job, strategy: AnyStrategy) -> Workers:
    """Return where the tasks of `route` send the records: each partition is a source."""
    workers = np.full(job.sample.n_records, -1, np.int32)
    for source, records in enumerate(job.sample.sources()):
        state = strategy.start(job.n_workers, job.seed, source=source)
        keys, out = job.sample.keys[records], workers[records]
        for begin in range(0, keys.size, job.batch_size):
            part = slice(begin, begin + job.batch_size)
            strategy.route(keys[part], state, out[part])
    return workers


def _prediction(
    job: Job,
    name: str,
    workers: Workers,
    n_places: int,
    moving: Moving,
    family: str,
    strategy: AnyStrategy | None = None,  # that routes a stream in the same way
) -> Prediction:
    loads = np.bincount(workers, minlength=n_places)
    pairs = job.sample.pairs(workers, n_places)
    return Prediction(
        name,
        family,
        metrics.imbalance(loads),
        metrics.replication(int(pairs.sum()), job.sample.n_keys),
        None if strategy is None else _makespan(job, strategy),
        job.seconds(loads, pairs, moving),
    )


def _makespan(job: Job, strategy: AnyStrategy) -> float:
    sample, window = job.sample, job.window
    if window is None:
        # At most so many of the records, evenly spread over all.
        step = max(1, -(-sample.n_records // _STREAM_RECORDS))
        sample = SampledKeys(np.ascontiguousarray(sample.keys[::step]))
        window = max(1, -(-sample.n_records // _MICRO_BATCHES))
    run = simulate(
        strategy,
        sample,
        n_workers=job.n_workers,
        n_sources=_STREAM_SOURCES,
        seed=job.seed,
        window=window,
    )
    ratio: float = run.summary()["makespan_ratio"]
    return ratio
