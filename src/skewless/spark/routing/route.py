"""`route`: chooses a worker for every record and sends the record to that worker's partition."""

from __future__ import annotations

import json
import secrets
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from numpy.typing import ArrayLike
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]
from pyspark.sql.types import NumericType

from skewless import parameters, registry
from skewless.arguments import MOST_WORKERS, seed_number, text, whole
from skewless.simulator.starting import require_capacities
from skewless.spark.columns import (
    GroupingKey,
    Key,
    computed,
    existing,
    grouping_key,
    quoted,
    require_dataframe,
)
from skewless.spark.ledger.ledger import Ledger
from skewless.spark.routing.key_hashes import hashed_key
from skewless.spark.routing.plans import PlanMaker
from skewless.spark.routing.router import Router, identity_for, state_identity
from skewless.spark.routing.seeds import draw_seed, log_seed
from skewless.spark.routing.worker_steps import last_workers
from skewless.spark.worker_python import require_skewless
from skewless.strategy import AnyStrategy, Rescales, Weighs

#: The strategy where the user names none.
DEFAULT_STRATEGY = "cascade-ahead"


def route(
    df: DataFrame,
    key: Key,
    *,
    strategy: str | AnyStrategy = DEFAULT_STRATEGY,
    workers: int | None = None,
    capacities: ArrayLike | None = None,
    weight: str | Column | None = None,
    seed: int | None = None,
    ledger: str | None = None,
    untrusted_keys: bool | None = None,
    column: str = "worker",
) -> DataFrame:
    """Return `df` with the worker of every record, each record in the partition of its worker.

    Works on batch and streaming DataFrames. Each task is a source: it routes the records that it
    reads, in the order in which it reads them. A `mapInArrow` that follows, or a `groupBy` that
    includes the worker, needs no second shuffle.

    Parameters
    ----------
    df
        The records. Their columns stay in the JVM. Only a hash of the key, and the weight if there
        is one, go to Python.
    key
        The name of a column, a Column, or several of them. Any type that Spark can hash.
    strategy
        A registered name (`skewless strategies` lists them), `module:Class`, or a strategy object.
    workers
        The number of partitions. None: `spark.skewless.workers`; else, for a stream, the last
        number in `ledger`; else `spark.sql.shuffle.partitions`. A stream may be restarted with
        another number if its strategy can rescale.
    capacities
        Relative speeds of the workers, one number above 0 for each. Only strategies that can
        rescale accept them. A stream may be restarted with other speeds. None: those in its ledger.
        A strategy that measures speeds, such as `fish` in `aggregate`, uses what it measures.
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
    column
        The name of the new column.

    Examples
    --------
    >>> route(orders, "customer", strategy="cascade-ahead", workers=64)  # doctest: +SKIP
    """
    require_dataframe(df)
    by = grouping_key(df, key)
    router = make_router(
        df,
        by,
        strategy=strategy,
        workers=workers,
        capacities=capacities,
        seed=seed,
        ledger=ledger,
        untrusted_keys=untrusted_keys,
    )
    text(column, "column", "a name for the new column")
    if column.lower() in [name.lower() for name in df.columns]:  # Spark would replace it
        raise ValueError(
            f"column: the DataFrame has a column {column!r} already; it has {', '.join(df.columns)}"
        )
    hashed = hashed_key(by, untrusted=router.untrusted_keys)
    if weight is not None:
        hashed.append(weight_column(df, weight, router.routing.strategy))
    require_skewless(df.sparkSession)
    return routed(df, router, hashed, column)


def make_router(
    df: DataFrame,
    key: GroupingKey,
    *,
    strategy: str | AnyStrategy,
    workers: int | None,
    seed: int | None,
    ledger: str | None,
    capacities: ArrayLike | None = None,
    untrusted_keys: bool | None = None,
    state: Mapping[str, str] | None = None,
) -> Router:
    """Return the router for these arguments; raise ValueError for bad ones.

    `state` holds what else must not have changed since the ledger was written first.
    """
    spark = df.sparkSession
    chosen = registry.strategy_of(strategy)
    n_workers = number_of_workers(df, workers, ledger)
    speeds = _speeds(capacities, n_workers, chosen)
    asked_seed = _given(seed, "seed", spark)
    given_seed = None if asked_seed is None else seed_number(asked_seed)
    untrusted = switch(untrusted_keys, "untrusted_keys", "spark.skewless.untrustedKeys", spark)
    identity: dict[str, Any] = {
        "strategy": chosen.name,
        "parameters": json.dumps(parameters.as_dict(chosen), sort_keys=True, default=str),
        "workers": n_workers,
        "seed": draw_seed() if given_seed is None else given_seed,
        "key": ", ".join(key.names),
        **(state or {}),
    }
    if df.isStreaming:
        identity |= state_identity(chosen, n_workers)
    if untrusted:
        identity["untrusted_keys"] = True
    drawn = ("seed",) if given_seed is None else ()
    chosen_ledger, per_query = _ledger(df, ledger, identity, drawn, chosen)
    if drawn and chosen_ledger is not None and not per_query:
        kept = chosen_ledger.seed()
        identity["seed"] = identity["seed"] if kept is None else kept
    if drawn and not df.isStreaming:
        log_seed(identity["seed"])
    return Router(
        PlanMaker(chosen, n_workers, identity["seed"], speeds),
        chosen_ledger,
        per_query,
        identity,
        keeps_seed=not (drawn and df.isStreaming),
        untrusted_keys=untrusted,
        built=secrets.token_hex(8),
    )


def check_routing(
    df: DataFrame,
    workers: Any,
    capacities: ArrayLike | None,
    seed: Any,
    ledger: str | None,
    untrusted_keys: Any,
) -> tuple[int, bool]:
    """Raise ValueError for bad arguments, even for those that have no effect.

    Returns the number of workers, and whether strangers choose the keys.
    """
    given_seed = _given(seed, "seed", df.sparkSession)
    if given_seed is not None:
        seed_number(given_seed)
    setting = "spark.skewless.untrustedKeys"
    untrusted = switch(untrusted_keys, "untrusted_keys", setting, df.sparkSession)
    if ledger is not None:
        Ledger(ledger)  # refuses what is not a folder
    n_workers = number_of_workers(df, workers, ledger)
    require_capacities(capacities, n_workers)
    return n_workers, untrusted


def routed(df: DataFrame, router: Router, inputs: Sequence[Column], column: str) -> DataFrame:
    """Return `df` with the worker of each record in `column`, in the partition of that worker.

    `inputs` are what the router reads: the hashed key, and weights if there are any.
    """

    def workers_of(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        yield from router.route(batches)

    def workers_of_hashes(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        yield from router.route((batch,) for batch in batches)

    # Spark reads from the annotations whether a function takes one column or several.
    function = workers_of_hashes if len(inputs) == 1 else workers_of
    # Not deterministic in Spark's sense: the worker depends on the records before, so Spark must
    # neither evaluate it twice nor move a filter below it.
    worker: Column = arrow_udf(function, "int").asNondeterministic()(*inputs)
    with_workers = df.withColumn(column, worker)
    return with_workers.repartitionById(router.routing.n_workers, F.col(quoted(column)))


def weight_column(df: DataFrame, weight: str | Column, strategy: AnyStrategy) -> Column:
    """Return the weights as numbers; raise ValueError if the strategy does not weigh records."""
    if not isinstance(strategy, Weighs):
        able = [repr(name) for name in registry.names() if issubclass(registry.get(name), Weighs)]
        raise ValueError(
            f"weight: strategy {strategy.name!r} does not weigh records; {', '.join(able)} do: "
            "use one of them, or leave out weight"
        )
    column = weight if isinstance(weight, Column) else df[quoted(existing(df, weight, "weight"))]
    field = computed(df, column, "weight")
    if not isinstance(field.dataType, NumericType):
        raise ValueError(
            f"weight: column {field.name!r} must be a number, not {field.dataType.simpleString()}"
        )
    cost = column.cast("double")
    return F.when((cost >= 0) & (cost < float("inf")), cost).otherwise(1.0)  # NaN is above infinity


def _given(value: Any, name: str, spark: Any) -> Any:
    """Return the argument, or else the setting `spark.skewless.<name>`, or None."""
    return value if value is not None else spark.conf.get(f"spark.skewless.{name}", None)


def switch(value: bool | None, name: str, setting: str, spark: Any) -> bool:
    """Return whether the argument, or else the setting, is true."""
    if value is None:
        name, value = setting, spark.conf.get(setting, "false")
    text = str(value).lower()
    if not isinstance(value, bool | str) or text not in ("true", "false"):
        raise ValueError(f"{name} must be true or false, not {value!r}")
    return text == "true"


def number_of_workers(df: DataFrame, workers: Any, ledger: Any = None) -> int:
    """Return the number that was given, else the last one of the ledger, else Spark's.

    The ledger comes before Spark's number because that number often follows the cores, and a query
    may restart on a machine with other cores.
    """
    spark = df.sparkSession
    given = _given(workers, "workers", spark)
    if given is None and ledger is not None and df.isStreaming:
        given = last_workers(Ledger(ledger))
    if given is None:
        given = spark.conf.get("spark.sql.shuffle.partitions")
    return whole(given, "workers", least=1, most=MOST_WORKERS)


def _speeds(
    capacities: ArrayLike | None, n_workers: int, strategy: AnyStrategy
) -> tuple[float, ...] | None:
    """Return the capacities; raise ValueError for bad ones, or if the strategy cannot use them.

    Equal capacities are kept: workers that differed before may be equal from now on.
    """
    if capacities is None:
        return None
    speeds = require_capacities(capacities, n_workers)
    if not isinstance(strategy, Rescales):
        able = [repr(name) for name in registry.names() if issubclass(registry.get(name), Rescales)]
        raise ValueError(
            f"capacities: strategy {strategy.name!r} ignores differences in speed; "
            f"use one of {', '.join(able)}, or leave out capacities"
        )
    return tuple(speeds.tolist())


def _ledger(
    df: DataFrame,
    folder: str | None,
    identity: dict[str, Any],
    drawn: tuple[str, ...],
    strategy: AnyStrategy,
) -> tuple[Ledger | None, bool]:
    """Return the ledger, and whether it is the root in which each query has its folder."""
    given = None if folder is None else Ledger(folder)  # refuses what is not a folder
    if not df.isStreaming:
        return None, False
    if given is not None:
        given.check(identity_for(identity, strategy, given), drawn=drawn)
        return given, False
    root = df.sparkSession.conf.get("spark.skewless.ledger", None)
    if root is not None:
        return Ledger(str(root)), True
    warnings.warn(
        "no ledger: every micro-batch begins with nothing learned. Give ledger=, a folder "
        "beside the checkpoint, or set spark.skewless.ledger",
        stacklevel=4,
    )
    return None, False
