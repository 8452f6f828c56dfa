"""Predicts how each strategy, and each alternative in plain Spark, would balance a job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pyspark.sql import Column

from skewless import metrics, registry
from skewless.arrays import Ints, Workers
from skewless.plumbing.arguments import shown
from skewless.simulator import simulate
from skewless.spark.diagnosis.alternatives import (
    LOCAL,
    ROUND_ROBIN,
    partition_of,
    round_robin,
    salted,
)
from skewless.spark.diagnosis.costs import Costs, Moving, makespan
from skewless.spark.diagnosis.sampled_keys import SampledKeys
from skewless.spark.routing.plans import PlanMaker
from skewless.strategy import AnyStrategy

#: What plain Spark does, and what everything is compared with.
BASELINE = "hash"
#: The limit: it knows later records. Shown on request, never advised.
LIMIT = "ideal"
#: One or two of each idea; most others are variants of these.
WORTHWHILE = (
    BASELINE,
    "shuffle",
    "pkg",
    "w-choices",
    "fish",
    "pd-stream",
    "cascade",
    "cascade-ahead",
    "mixed",
)
#: The family of alternatives in plain Spark.
PLAIN = "plain Spark"
_STREAM_SOURCES = 4
_STREAM_RECORDS = 200_000
_MICRO_BATCHES = 20


@dataclass(frozen=True)
class Prediction:
    """What a strategy would do; `skewless.metrics` defines the numbers.

    `imbalance` and `replication` are for all records at once, as in a batch job. There, strategies
    that move keys do the same as `hash`, since keys move between micro-batches. `seconds` is the
    time of the batch job by the costs that were given or measured; None without costs. `makespan`
    is for a stream: the time of the same records as 20 micro-batches, each as long as its slowest
    worker, divided by the time with perfect balance. Micro-batches of a sample are short, so chance
    makes all makespans longer: compare them only with each other.
    """

    strategy: str
    family: str
    imbalance: float
    replication: float
    makespan: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Job:
    """What is known about a job before it runs.

    Parameters
    ----------
    sample
        The keys of its records, or of some of them.
    n_workers
        Tasks after the routing.
    n_slots
        Tasks that run at the same time.
    records
        How many records there are; the sample may have fewer.
    costs
        What the work costs; None: not known.
    seed
        Of the strategies.
    batch_size
        Records that Spark hands to Python at a time.
    """

    sample: SampledKeys
    n_workers: int
    n_slots: int
    records: int
    costs: Costs | None = None
    seed: int = 0
    batch_size: int = 10_000

    def seconds(self, loads: Ints, pairs: Ints, moving: Moving) -> float | None:
        """Return the time of tasks with this many records and keys each.

        A sample has fewer records than the job, and may have fewer keys: the job has at least the
        pairs of the sample.
        """
        if self.costs is None:
            return None
        scale = self.records / self.sample.n_records if self.sample.n_records else 1.0
        each = [
            self.costs.seconds(scale * records, n)
            for records, n in zip(loads.tolist(), pairs.tolist(), strict=True)
        ]
        sources = [scale * (part.stop - part.start) for part in self.sample.sources()]
        return makespan(each, self.n_slots) + moving.seconds(sources, self.n_slots)


def chosen_strategies(wanted: str | Iterable[str | AnyStrategy] | None) -> list[AnyStrategy]:
    """Return the strategies by name, the baseline first whether it was asked for or not."""
    if wanted is None:
        names: Sequence[str | AnyStrategy] = WORTHWHILE
    elif isinstance(wanted, str):
        names = registry.names() if wanted == "all" else [wanted]
    elif isinstance(wanted, Iterable) and not isinstance(wanted, Column):
        names = list(wanted)
    else:
        raise ValueError(f"strategies must be names or strategies, or 'all', not {shown(wanted)}")
    made = [registry.strategy_of(name, "strategies") for name in names]
    rest = [strategy for strategy in made if strategy.name != BASELINE]
    return [registry.make(BASELINE), *rest]


def predict(
    job: Job, strategies: Iterable[AnyStrategy], plain: Workers | None = None
) -> tuple[Prediction, ...]:
    """Build a prediction for each strategy with these records, and then for plain Spark's ways.

    Parameters
    ----------
    job
        The records.
    strategies
        Those of `chosen_strategies`.
    plain
        Where Spark's own hash sends each record; None: by the strategy `hash`.
    """
    found = []
    for strategy in strategies:
        if strategy.name == BASELINE:
            workers = routed(job, strategy) if plain is None else plain
            one = _prediction(job, BASELINE, PLAIN, workers)
        else:
            workers = routed(job, strategy)
            family = strategy.traits.family
            one = _prediction(job, strategy.name, family, workers, Moving.ROUTED)
        found.append(_with_makespan(job, one, strategy))
    dealt = round_robin(job.sample, job.n_workers)
    found.append(_prediction(job, ROUND_ROBIN, PLAIN, dealt, Moving.DEALT))
    for name, workers in salted(job.sample, job.n_workers):
        found.append(_prediction(job, name, PLAIN, workers))
    found.append(_local(job))
    return tuple(found)


def routed(job: Job, strategy: AnyStrategy) -> Workers:
    """Return where the tasks of `route` send the records: each partition is a source."""
    plans = PlanMaker(strategy, job.n_workers, job.seed)
    workers = np.full(job.sample.n_records, -1, np.int32)
    for source, records in enumerate(job.sample.sources()):
        state = plans.start(source)
        keys, out = job.sample.keys[records], workers[records]
        for begin in range(0, keys.size, job.batch_size):
            part = slice(begin, begin + job.batch_size)
            strategy.route(keys[part], state, out[part])
    return workers


def _prediction(
    job: Job, name: str, family: str, workers: Workers, moving: Moving = Moving.SHUFFLED
) -> Prediction:
    loads = np.bincount(workers, minlength=job.n_workers)
    pairs = job.sample.pairs(workers, job.n_workers)
    return Prediction(
        name,
        family,
        metrics.imbalance(loads),
        metrics.replication(int(pairs.sum()), job.sample.n_keys),
        seconds=job.seconds(loads, pairs, moving),
    )


def _local(job: Job) -> Prediction:
    """Return the prediction for work on the partitions as they are."""
    partitions, n_partitions = partition_of(job.sample)
    loads = np.bincount(partitions, minlength=n_partitions)
    pairs = job.sample.pairs(partitions, n_partitions)
    # One partition on eight slots leaves seven of them idle.
    spread = np.zeros(max(n_partitions, job.n_slots), np.int64)
    spread[:n_partitions] = loads
    return Prediction(
        LOCAL,
        PLAIN,
        metrics.imbalance(spread),
        metrics.replication(int(pairs.sum()), job.sample.n_keys),
        seconds=job.seconds(loads, pairs, Moving.NONE),
    )


def _with_makespan(job: Job, one: Prediction, strategy: AnyStrategy) -> Prediction:
    sample = job.sample.thinned(_STREAM_RECORDS)
    window = max(1, -(-sample.n_records // _MICRO_BATCHES))
    run = simulate(
        strategy,
        sample,
        n_workers=job.n_workers,
        n_sources=_STREAM_SOURCES,
        seed=job.seed,
        window=window,
    )
    return replace(one, makespan=run.summary()["makespan_ratio"])
