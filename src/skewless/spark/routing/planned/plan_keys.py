"""`plan_keys`: counts the keys of a batch, and plans which worker gets which key."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import ArrayLike
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skewless import planning
from skewless.metrics import imbalance
from skewless.planning.key_plan import Made, plan_of
from skewless.planning.packing import KeyCounts, Packed, first_homes, pack
from skewless.plumbing.arguments import shown
from skewless.plumbing.text_tables import number, percent
from skewless.spark.columns import internal
from skewless.spark.records import Key, Records
from skewless.spark.routing.arguments import RoutingArguments, cost_column, routing_arguments
from skewless.spark.routing.planned.counting import LARGEST_ERROR, count_keys, seeded_hash
from skewless.spark.routing.planned.inputs import input_of
from skewless.spark.routing.planned.placing import with_worker
from skewless.spark.routing.seeds import draw_seed, log_seed

#: By how much the load of a worker may exceed the mean if the user says nothing.
TOLERANCE = 0.05
#: A sample has so many records that its error is at most this part of the tolerance.
_OF_SAMPLE = 0.5
#: With a larger part, which partitions of very different sizes cause, all records are counted.
_MOST_OF_SAMPLE = 0.6
#: Partitions from this number on are thinned alike.
_MOST_PARTITIONS = 32
_WORKER, _LOAD = internal("worker"), internal("load")
_LOGGER = logging.getLogger("skewless")


@dataclass(frozen=True)
class Fit:
    """How well a plan fits other records: the load that each worker would get."""

    loads: tuple[float, ...]
    imbalance: float
    planned: float  # the imbalance for which the plan was made

    def __str__(self) -> str:
        """Return one line."""
        return (
            f"{number(sum(self.loads))} on {len(self.loads)} workers: imbalance "
            f"{percent(self.imbalance)}, planned {percent(self.planned)}"
        )


@dataclass(frozen=True)
class KeyPlan(planning.KeyPlan):
    """Where the keys of a batch go, made by `plan_keys`; `route(…, plan=plan)` follows it.

    Besides what it prints: `split` are the split keys, `loads` the load of each worker, `table` the
    keys that do not go by their hash. `save` and `load` keep it as JSON, so that the plan of
    yesterday can serve today. `fit` says how well it does.
    """

    def fit(self, df: DataFrame, *, weight: str | Column | None = None) -> Fit:
        """Count what each worker would get of the records of `df`; this reads them once.

        Without `weight`, records have the weight of the plan, if that is a column of `df`. What a
        key costs is not in these loads.
        """
        records = Records.of(df).by(list(self.made.key))
        self.require_key(records)
        if weight is None and self.made.weight in df.columns:
            weight = self.made.weight
        cost = F.lit(1.0) if weight is None else cost_column(records, weight)
        costed = replace(records, df=df.withColumn(_LOAD, cost))
        placed = with_worker(costed, self, _WORKER, are_moved=False)
        found = placed.groupBy(_WORKER).agg(F.sum(_LOAD))
        load_of = {worker: float(load) for worker, load in found.collect()}
        loads = tuple(load_of.get(worker, 0.0) for worker in range(self.n_workers))
        return Fit(loads, imbalance(loads, self.capacities), self.imbalance)

    def require_key(self, records: Records) -> None:
        """Raise ValueError unless these records have the key of the plan."""
        made, key = self.made, records.key
        kinds = tuple(field.dataType.simpleString() for field in key.fields)
        if (key.names, kinds) != (made.key, made.types):
            raise ValueError(
                f"plan is for the key {_typed(made.key, made.types)}, not "
                f"{_typed(key.names, kinds)}: rename or cast the columns of the key"
            )


def plan_keys(
    df: DataFrame,
    key: Key,
    workers: int | None = None,
    *,
    weight: str | Column | None = None,
    per_key: float = 0.0,
    capacities: ArrayLike | None = None,
    tolerance: float = TOLERANCE,
    whole_keys: bool = False,
    seed: int | None = None,
    untrusted_keys: bool | None = None,
) -> KeyPlan:
    """Count the keys of a batch DataFrame, and plan which worker gets which key.

    It runs one job, in the JVM. If `df` is a scan with filters and projections that need no Python,
    or is cached, all records are counted: only the columns of the key are read. Otherwise this
    computes `df` once, so cache it if you go on with it. Of its large partitions a sample is
    counted, unless there are weights or `per_key`; `plan.made.counted` is "sample" then, and the
    loads of workers deviate from the plan by chance.

    Keys that are too heavy for one worker are split, and no others as long as whole keys can be
    packed within the tolerance. There are at most `workers` − 1 splits in all.

    Parameters
    ----------
    df
        The records. A stream decides online: see `route`.
    key
        The name of a column, a Column, or several of them.
    workers
        The number of workers. None: as for `route`.
    weight
        What a record costs: a numeric column. Null, NaN, infinity and negative numbers count as 1.
    per_key
        What a key costs the worker that has it, once, in records: to load a model, to open a file.
    capacities
        Relative speeds of the workers, one number for each. A worker of capacity 0 gets no records.
    tolerance
        By how much the load of a worker may exceed the mean. Records of split keys are dealt by a
        hash. So a worker that gets m of them deviates by about √m records in addition.
    whole_keys
        Whether every key stays on one worker. A key that is too heavy makes its worker late then.
    seed, untrusted_keys
        As for `route`. The plan keeps its seed.

    Examples
    --------
    >>> orders = spark.range(1000).selectExpr("id", "if(id % 2 = 0, 0, id) AS customer")
    >>> plan = plan_keys(orders, "customer", 4)
    >>> len(plan.split), sum(plan.loads)
    (1, 1000.0)
    >>> from skewless.spark import route
    >>> route(orders, "customer", plan=plan).count()
    1000
    """
    records = Records.of(df).by(key)
    if records.is_stream:
        raise ValueError("df is a stream, which cannot be counted beforehand: route decides online")
    given = routing_arguments(df, workers, capacities, seed, untrusted_keys=untrusted_keys)
    return made_plan(
        records,
        given.workers,
        draw_seed() if given.seed is None else given.seed,
        capacities=given.capacities,
        weight=weight,
        per_key=_at_least_0(per_key, "per_key"),
        tolerance=_at_least_0(tolerance, "tolerance"),
        untrusted=given.untrusted_keys,
        whole_keys=is_whole(whole_keys),
        is_shown=True,
    )


def made_plan(
    records: Records,
    n_workers: int,
    seed: int,
    *,
    capacities: Sequence[float] | None = None,
    weight: str | Column | None = None,
    per_key: float = 0.0,
    tolerance: float = TOLERANCE,
    untrusted: bool = False,
    whole_keys: bool = False,
    is_shown: bool = False,
    packing: Callable[[KeyCounts], Packed] | None = None,
) -> KeyPlan:
    """Return the plan for arguments that are checked.

    `is_shown`: the user sees the plan. Then it has the keys as text, and all records are counted
    where that is cheap; else a sample of large partitions. `packing`: in another way than by
    `pack`.
    """
    df, key = records.df, records.key
    kinds = tuple(field.dataType.simpleString() for field in key.fields)
    if key.is_collated:
        raise ValueError(
            f"key: {_typed(key.names, kinds)}: Spark's hash of text ignores its collation, "
            "so equal keys would be planned as several: cast it to string, or give route a strategy"
        )
    cost = None if weight is None else cost_column(records, weight)
    weighed = weight if weight is None or isinstance(weight, str) else "a computed weight"
    hashed = seeded_hash(key, seed, untrusted=untrusted)
    n_buckets = first_homes(n_workers, capacities).size
    begin = time.perf_counter()
    # A few heavy records could be missed, and no sample tells how many keys there are.
    is_exact = cost is not None or per_key > 0 or (is_shown and input_of(df).is_cheap)
    costs: dict[str, Any] = {"weight": cost, "per_key": per_key}
    names = key if is_shown else None
    thin = None if is_exact else _thin(n_workers, tolerance, seed)
    found = count_keys(df, hashed, n_buckets, **costs, named=names, thin=thin)
    if found.error(n_workers) > _MOST_OF_SAMPLE * tolerance and input_of(df).is_cheap:
        found = count_keys(df, hashed, n_buckets, **costs, named=names)
    if not math.isfinite(found.counts.buckets.sum()):
        raise ValueError(f"weight: {shown(weighed)} has a sum that is not finite")
    counted = "sample" if found.noise else "exact"
    made = Made(key.names, kinds, seed, tolerance, untrusted, weighed, per_key, counted)
    allowed = max(tolerance - found.error(n_workers), (1 - _MOST_OF_SAMPLE) * tolerance)
    packed = (
        pack(found.counts, n_workers, capacities, allowed, whole_keys=whole_keys)
        if packing is None
        else packing(found.counts)
    )
    plan = KeyPlan(**plan_of(found.counts, packed, made, capacities, found.names))
    if whole_keys and plan.imbalance > 1:
        _LOGGER.warning(
            "keys stay whole, so a worker gets %.1f times its fair share", plan.imbalance + 1
        )
    _LOGGER.info(
        "counted %s keys of %s in %.1f s (%s): imbalance %.3f planned, %d keys split",
        *(number(plan.n_keys), ", ".join(key.names), time.perf_counter() - begin, counted),
        *(plan.imbalance, len(plan.split)),
    )
    return plan


def logged_plan(
    records: Records,
    given: RoutingArguments,
    weight: str | Column | None,
    *,
    whole_keys: bool = False,
) -> KeyPlan:
    """Return the plan that a verb follows at once; if it draws a seed, that is logged."""
    seed = draw_seed() if given.seed is None else given.seed
    if given.seed is None:
        log_seed(seed)
    return made_plan(
        records,
        given.workers,
        seed,
        capacities=given.speeds,
        weight=weight,
        untrusted=given.untrusted_keys,
        whole_keys=whole_keys,
    )


def _thin(n_workers: int, tolerance: float, seed: int) -> tuple[int, int, int] | None:
    """Return how a sample is thinned whose error is a part of the tolerance; None: not at all."""
    if tolerance == 0:
        return None
    enough = n_workers * (LARGEST_ERROR / (_OF_SAMPLE * tolerance)) ** 2
    return math.ceil(math.log2(max(1.0, enough))), _MOST_PARTITIONS, seed >> 1


def _at_least_0(value: Any, argument: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:
        raise ValueError(f"{argument} must be a number of at least 0, not {shown(value)}")
    return float(value)


def is_whole(whole_keys: Any) -> bool:
    """Return whether keys stay whole; raise ValueError for what is neither true nor false."""
    if not isinstance(whole_keys, bool):
        raise ValueError(f"whole_keys must be True or False, not {shown(whole_keys)}")
    return whole_keys


def _typed(names: Sequence[str], kinds: Sequence[str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
