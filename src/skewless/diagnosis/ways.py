"""What each way of partitioning would do with a job: strategies, and what needs none.

A `Job` is what is known before it runs: the keys of its records by partition, its workers, slots
and costs. `WAYS` is the one table of the ways that need no strategy. A new way is a new entry:
where it sends the records, how they get there, and how the advice describes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar, NamedTuple

import numpy as np

from skewless import metrics, registry
from skewless.arrays import Floats, Ints, Keys, Workers
from skewless.diagnosis.costs import Costs, Moving, makespan
from skewless.kernels.hashing import keyed, seed_array
from skewless.planning.packing import KeyCounts, buckets_of, first_homes, pack
from skewless.plumbing.arguments import shown
from skewless.simulator import simulate
from skewless.strategy import AnyStrategy
from skewless.workloads.workload import CHUNK_SIZE, spans

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
#: Above this many places, (key, worker) pairs are counted by sorting instead of in a table.
_MOST_PLACES = 1 << 28


@dataclass(frozen=True)
class SampledKeys:
    """Key hashes in the order of the records, partition by partition; also a workload."""

    name: ClassVar[str] = "sample"

    keys: Keys  # one hash per record
    # How many of the records each partition has; None: there is one partition.
    partitions: tuple[int, ...] | None = None
    # Where the engine's own hash sends each record; None: by the strategy `hash`.
    hashed: Workers | None = None

    @property
    def n_records(self) -> int:
        """How many records there are."""
        return int(self.keys.size)

    @property
    def n_keys(self) -> int:
        """How many distinct keys there are."""
        return int(self.distinct[0].size)

    def chunks(self, seed: int, chunk_size: int = CHUNK_SIZE) -> Iterator[Keys]:
        """Yield the key hashes in order."""
        for first, size in spans(self.n_records, chunk_size):
            yield self.keys[first : first + size]

    def sources(self) -> Iterator[slice]:
        """Yield where the records of each partition are."""
        begin = 0
        for size in (self.n_records,) if self.partitions is None else self.partitions:
            yield slice(begin, begin + size)
            begin += size

    def pairs(self, places: Workers, n_places: int) -> Ints:
        """Return the number of distinct keys at each place; record i is at `places[i]`."""
        n_keys, index = self.n_keys, self.distinct[1]
        if n_keys * n_places <= _MOST_PLACES:
            has = np.zeros((n_places, n_keys), bool)
            has[places, index] = True
            counts: Ints = has.sum(axis=1, dtype=np.int64)
            return counts
        pairs = np.unique(index * n_places + places)
        return np.bincount(pairs % n_places, minlength=n_places)

    @cached_property
    def distinct(self) -> tuple[Keys, Ints]:
        """The distinct keys, and the number of each record's key among them."""
        distinct, index = np.unique(self.keys, return_inverse=True)
        return distinct, index.astype(np.int64, copy=False)


@dataclass(frozen=True)
class Job:
    """What is known about a job before it runs."""

    sample: SampledKeys  # the keys of its records, or of some of them
    # Tasks after the routing, and tasks that run at the same time.
    n_workers: int
    n_slots: int
    records: int  # how many records there are; the sample may have fewer
    costs: Costs | None = None  # what the work costs; None: not known
    seed: int = 0  # of the strategies
    batch_size: int = 10_000  # records that the engine hands to a strategy at a time
    # Records of a micro-batch, where the sample is taken for a stream. None: a few micro-batches of
    # a thinner sample.
    window: int | None = None

    @property
    def scale(self) -> float:
        """How many records of the job each one of the sample stands for."""
        return self.records / self.sample.n_records if self.sample.n_records else 1.0

    @property
    def pair_in_records(self) -> float:
        """What a key costs a worker, in records of the sample; 0 without costs."""
        return self.costs.pair_in_records / max(self.scale, 1.0) if self.costs else 0.0

    def seconds(self, loads: Ints, pairs: Ints, moving: Moving) -> float | None:
        """Return the time of tasks with this many records and keys each; None without costs.

        A sample has fewer records than the job, and may have fewer keys: the job has at least the
        pairs of the sample.
        """
        if self.costs is None:
            return None
        scale = self.scale
        each = map(self.costs.seconds, (scale * loads).tolist(), pairs.tolist())
        sources = [scale * (part.stop - part.start) for part in self.sample.sources()]
        return makespan(each, self.n_slots) + moving.seconds(sources, self.n_slots)


def _in_turn(job: Job) -> Iterator[tuple[str, Workers]]:
    """`repartition(n)`: each partition deals its records out in turn."""
    workers = np.empty(job.sample.n_records, np.int32)
    for partition, records in enumerate(job.sample.sources()):
        size = records.stop - records.start
        workers[records] = (np.arange(size) + partition) % job.n_workers
    yield "", workers


def _salted(job: Job, numbers: Sequence[int], only_hot: bool) -> Iterator[tuple[str, Workers]]:
    """`repartition(n, key, salt)` with salts by `F.rand()`; with `only_hot` as people write it.

    Salts that cycle could follow a period of the keys, and look better than they are.
    """
    index, fair = job.sample.distinct[1], job.sample.n_records / job.n_workers
    least = HOT * fair if only_hot else 0.0
    is_salted = (np.bincount(index) > least)[index]
    random, seed = np.random.default_rng(0), seed_array(0, 2)
    for number in numbers:
        if number > job.n_workers and not (only_hot and number == numbers[0]):
            break
        salts = random.integers(0, number, index.size, np.uint64) * is_salted
        hashes = np.empty_like(salts)
        keyed(job.sample.keys, salts, seed, hashes)
        yield f"-{number}", (hashes % np.uint64(job.n_workers)).astype(np.int32)


def _planned(job: Job, whole_keys: bool) -> Iterator[tuple[str, Workers]]:
    """By a plan of these keys; records of split keys are dealt at random."""
    (distinct, index), n = job.sample.distinct, job.n_workers
    counts: Floats = np.bincount(index, minlength=distinct.size).astype(np.float64)
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
            places, shares = zip(*pieces, strict=True)
            workers[records] = random.choice(places, records.size, p=shares)
    yield "", workers


def _as_they_are(job: Job) -> Iterator[tuple[str, Workers]]:
    """The partitions as they are."""
    sizes = [records.stop - records.start for records in job.sample.sources()]
    yield "", np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)


class Way(NamedTuple):
    """A way of partitioning that needs no strategy."""

    how: str  # in the advice, with {workers} and {number}, which is the last part of its name
    moving: Moving
    # What follows its name, and the workers; None: by the strategy of its name.
    send: Callable[[Job], Iterator[tuple[str, Workers]]] | None
    family: str = PLAIN


#: The ways that need no strategy. A name may end with a number: `salt-4`.
WAYS = {
    BASELINE: Way("plain Spark by key", Moving.SHUFFLED, None),
    ROUND_ROBIN: Way("a plain repartition({workers}) without a key", Moving.DEALT, _in_turn),
    SALT: Way(
        "salting by {number}", Moving.SHUFFLED, partial(_salted, numbers=_SALTS, only_hot=False)
    ),
    HOT_SALT: Way(
        *("salting of hot keys by {number}", Moving.PLANNED),
        partial(_salted, numbers=_HOT_SALTS, only_hot=True),
    ),
    PLAN: Way(
        *("route, which plans first,", Moving.PLANNED),
        *(partial(_planned, whole_keys=False), PLANNED),
    ),
    WHOLE_PLAN: Way(
        *("a plan of whole keys by plan_keys", Moving.PLANNED),
        *(partial(_planned, whole_keys=True), PLANNED),
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
    for strategy in strategies:
        workers, moving = None, Moving.ROUTED
        family: str = strategy.traits.family
        if strategy.name == BASELINE:
            workers, moving, family = job.sample.hashed, WAYS[BASELINE].moving, PLAIN
        workers = routed(job, strategy) if workers is None else workers
        one = _prediction(job, strategy.name, workers, moving, family)
        found.append(replace(one, makespan=_makespan(job, strategy)))
    for name, way in WAYS.items():
        for end, workers in way.send(job) if way.send else ():
            found.append(_prediction(job, name + end, workers, way.moving, way.family))
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


def _prediction(job: Job, name: str, workers: Workers, moving: Moving, family: str) -> Prediction:
    n_places = job.n_workers
    if moving is Moving.NONE:  # one partition on eight slots leaves seven of them idle
        n_places = max(1, len(list(job.sample.sources())), job.n_slots)
    loads = np.bincount(workers, minlength=n_places)
    pairs = job.sample.pairs(workers, n_places)
    return Prediction(
        name,
        family,
        metrics.imbalance(loads),
        metrics.replication(int(pairs.sum()), job.sample.n_keys),
        seconds=job.seconds(loads, pairs, moving),
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
