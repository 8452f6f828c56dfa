"""`route`: chooses a worker for every record and sends the record to that worker's partition."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from numpy.typing import ArrayLike
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

from skewless import parameters, registry
from skewless.plumbing.arguments import shown, text
from skewless.spark.columns import is_internal, quoted
from skewless.spark.records import GroupingKey, Key, Records
from skewless.spark.routing import arguments
from skewless.spark.routing.arguments import RoutingArguments
from skewless.spark.routing.key_hashes import hashed_key
from skewless.spark.routing.planned.inputs import input_of
from skewless.spark.routing.planned.placing import placed
from skewless.spark.routing.planned.plan_keys import KeyPlan, logged_plan
from skewless.spark.routing.plans import PlanMaker
from skewless.spark.routing.query_ledger import query_ledger, state_identity
from skewless.spark.routing.router import Router
from skewless.spark.routing.seeds import log_seed
from skewless.spark.routing.speeds import uses_speeds
from skewless.spark.routing.worker_steps import Wishes
from skewless.spark.worker_python import require_skewless
from skewless.strategy import AnyStrategy, Rescales

#: The strategy that decides online where the user names none.
DEFAULT_STRATEGY = "cascade-ahead"
#: Plan first if the records are a batch that is cheap to count; else decide online.
AUTO = "auto"
_LOGGER = logging.getLogger("skewless")


def route(
    df: DataFrame,
    key: Key,
    *,
    strategy: str | AnyStrategy = AUTO,
    plan: KeyPlan | None = None,
    workers: int | None = None,
    capacities: ArrayLike | None = None,
    weight: str | Column | None = None,
    seed: int | None = None,
    ledger: str | None = None,
    untrusted_keys: bool | None = None,
    max_workers: int | None = None,
    column: str = "worker",
) -> DataFrame:
    """Return `df` with the worker of every record, each record in the partition of its worker.

    A batch that is cheap to count is planned first: `route` counts its keys when it is called, in
    one job, and logs that. Of large partitions, it counts a sample, and all records in a second job
    if the sample tells too little. The JVM then routes by the plan. Only keys that fit whole on no
    worker are split, and nothing of skewless runs in the workers.

    A stream, and a batch that is expensive to compute and not cached, are decided online, in
    Python. Each task is a source: it routes the records that it reads, in the order in which it
    reads them. So is every DataFrame if you name a strategy.

    A `mapInArrow` that follows, or a `groupBy` that includes the worker, needs no second shuffle.

    Parameters
    ----------
    df
        The records. Their columns stay in the JVM. Online, a hash of the key, and the weight if
        there is one, go to Python.
    key
        The name of a column, a Column, or several of them. Any type that Spark can hash.
    strategy
        A registered name (`skewless strategies` lists them), `module:Class`, or a strategy object,
        which decides online. "auto": plan first where counting is cheap; else `cascade-ahead`.
    plan
        A plan of `plan_keys`, of these records or of similar ones. It has the workers, their
        capacities and the seed. Only for batch DataFrames.
    workers
        The number of partitions. None: `spark.skewless.workers`; else, for a stream, the last
        number in `ledger`; else `spark.sql.shuffle.partitions`. A stream may be restarted with
        another number if its strategy can rescale.
    capacities
        Relative speeds of the workers, one number for each. Only strategies that can rescale
        accept them. A stream may be restarted with other speeds. None: those in its ledger. A
        worker of capacity 0 gets no records. With `max_workers`, give so many numbers.
    weight
        What a record costs: a numeric column, for strategies that weigh records. Null, NaN,
        infinity and negative numbers count as 1.
    seed
        The seed of the routing. None: `spark.skewless.seed`. Without either, a batch job draws one
        and logs it. A stream then derives its seed from the id of the query, and the ledger keeps
        it.
    ledger
        The folder in which the sources of a stream share what they learn. It survives restarts. Use
        one folder for each query and each `route`, for example beside the checkpoint. None: a
        subfolder of `spark.skewless.ledger` named by the query's id. Without either, each
        micro-batch starts with nothing learned.
    untrusted_keys
        Whether strangers choose the keys. None: `spark.skewless.untrustedKeys`. If true, a slower
        keyed hash replaces `xxhash64`: see `docs/chosen-keys.md`.
    max_workers
        The most workers that `scale_to` may ask for while the stream runs; so many partitions there
        are. None: `workers`. A batch ignores it.
    column
        The name of the new column.

    Examples
    --------
    Half of the orders are of customer 0. Hashing gives them all to one worker. Here the fullest one
    has little more than its fair share, 250:

    >>> orders = spark.range(1000).selectExpr("id", "if(id % 2 = 0, 0, id) AS customer")
    >>> loads = route(orders, "customer", workers=4).groupBy("worker").count()
    >>> max(row["count"] for row in loads.collect()) < 300
    True

    Of a stream, and with a strategy, each record is routed online:

    >>> online = route(orders, "customer", strategy="cascade-ahead", workers=4)
    >>> online.columns
    ['id', 'customer', 'worker']
    """
    records = Records.of(df).by(key)
    records.require_names()
    require_new(column, records)
    is_auto = isinstance(strategy, str) and strategy == AUTO
    if plan is not None:
        others = {
            "workers": workers,
            "capacities": capacities,
            "weight": weight,
            "seed": seed,
            "untrusted_keys": untrusted_keys,
            "max_workers": max_workers,
            "strategy": None if is_auto else strategy,
        }
        return placed(records, _followed(records, plan, others), column)
    given = arguments.routing_arguments(
        df, workers, capacities, seed, ledger, untrusted_keys, max_workers
    )
    if is_auto:
        if records.key.is_collated:
            _LOGGER.info("decides online: Spark's hash ignores the collation of the keys")
        elif not df.isStreaming and input_of(df).is_cheap:
            return placed(records, logged_plan(records, given, weight), column)
        elif not df.isStreaming:
            _LOGGER.info("decides online, in Python: df is expensive to count; cache it to plan it")
        strategy = DEFAULT_STRATEGY
    router = make_router(df, records.key, strategy, given)
    cost = None
    if weight is not None:
        cost = arguments.weight_column(records, weight, router.plans.strategy)
    require_skewless(df.sparkSession)
    return routed(df, router, records.key, cost, column)


def require_new(column: object, records: Records) -> None:
    """Raise ValueError unless this can be the name of one more column."""
    name = text(column, "column", "a name for the new column")
    if name.lower() in [one.lower() for one in records.names]:  # Spark would replace it
        raise ValueError(
            f"column: the DataFrame has a column {name!r} already: give column= another name, or "
            "drop or rename that column"
        )
    if is_internal(name):
        raise ValueError(
            f"column: {name!r} is the name of a column that skewless drops: give another"
        )


def _followed(records: Records, plan: object, others: Mapping[str, object]) -> KeyPlan:
    """Return the plan that was given; raise ValueError if these records cannot follow it."""
    if not isinstance(plan, KeyPlan):
        raise ValueError(
            "plan must be a KeyPlan of skewless.spark, as plan_keys returns it and KeyPlan.load "
            f"reads it, not {shown(plan)}"
        )
    if records.is_stream:
        raise ValueError("plan: df is a stream, and streams are decided online: leave out plan")
    given = [name for name, value in others.items() if value is not None]
    if given:
        raise ValueError(f"plan: leave out {', '.join(given)}: plan_keys has been told, or not")
    plan.require_key(records)
    return plan


def make_router(
    df: DataFrame,
    key: GroupingKey,
    strategy: str | AnyStrategy,
    given: RoutingArguments,
    state: Mapping[str, str] | None = None,
    stacklevel: int = 3,
) -> Router:
    """Return the router for these arguments; raise ValueError if the strategy cannot use them.

    `state` holds what else must not have changed since the ledger was written first. `stacklevel`
    leads to the user's call, for a warning.
    """
    chosen = registry.strategy_of(strategy)
    if given.capacities is not None:
        arguments.require_rescaling(chosen, given.capacities)
    if given.most > given.workers and not isinstance(chosen, Rescales):
        raise ValueError(
            f"max_workers: strategy {chosen.name!r} cannot change the number of workers; leave out "
            f"max_workers, or give {given.workers}, not {given.most}"
        )
    identity: dict[str, Any] = {
        "strategy": chosen.name,
        "parameters": json.dumps(parameters.as_dict(chosen), sort_keys=True, default=str),
        "workers": given.workers,
        "key": ", ".join(key.names),
        **(state or {}),
    }
    if df.isStreaming:
        identity |= state_identity(chosen, given.workers)
    if given.untrusted_keys:
        identity["untrusted_keys"] = True
    measures = given.measures_speeds and uses_speeds(chosen)
    if measures:
        identity["measured_speeds"] = True
    query = query_ledger(df, identity, given.seed, given.ledger, chosen)
    if df.isStreaming and query.ledger is None:
        warnings.warn(
            "no ledger: every micro-batch begins with nothing learned. Give ledger=, a folder "
            "beside the checkpoint, or set spark.skewless.ledger",
            stacklevel=stacklevel,
        )
    if not df.isStreaming and given.seed is None:
        log_seed(query.seed)
    wishes = Wishes(given.asked, given.most, given.capacities)
    plans = PlanMaker(
        chosen, given.workers, query.seed, given.speeds, measures_speeds=measures, given=wishes
    )
    return Router(plans, query, given.untrusted_keys)


def routed(
    df: DataFrame, router: Router, key: GroupingKey, weight: Column | None, column: str
) -> DataFrame:
    """Return `df` with the worker of each record in `column`, in the partition of that worker."""
    with_workers = decided(df, router, key, weight, column)
    return with_workers.repartitionById(router.plans.wishes.most, F.col(quoted(column)))


def decided(
    df: DataFrame, router: Router, key: GroupingKey, weight: Column | None, column: str
) -> DataFrame:
    """Return `df` with the worker of each record in `column`, or with its list of numbers."""
    inputs = hashed_key(key, untrusted=router.untrusted_keys)
    inputs += [] if weight is None else [weight]

    def workers_of(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        yield from router.route(batches)

    def workers_of_hashes(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        yield from router.route((batch,) for batch in batches)

    # Spark reads from the annotations whether a function takes one column or several.
    function = workers_of_hashes if len(inputs) == 1 else workers_of
    # Not deterministic in Spark's sense: the worker depends on the records before, so Spark must
    # neither evaluate it twice nor move a filter below it.
    kind = "array<int>" if router.tells_homes else "int"
    worker: Column = arrow_udf(function, kind).asNondeterministic()(*inputs)
    return df.withColumn(column, worker)
