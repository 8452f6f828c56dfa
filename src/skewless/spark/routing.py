"""`route`: every record gets its worker, and goes to the partition of that number."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import NumericType

from skewless import parameters, registry
from skewless.spark.columns import Key, computed, existing, key_columns, quoted
from skewless.spark.ledger import Ledger
from skewless.spark.plans import Routing
from skewless.spark.router import Router
from skewless.strategy import AnyStrategy, Weighs

#: Spark cannot shuffle to more partitions.
MOST_WORKERS = (1 << 24) - 1


def route(
    df: DataFrame,
    key: Key,
    *,
    strategy: str | AnyStrategy = "cascade",
    workers: int | None = None,
    weight: str | Column | None = None,
    seed: int | None = None,
    ledger: str | None = None,
    column: str = "worker",
) -> DataFrame:
    """Return `df` with the worker of every record, each record in the partition of its worker.

    Works on batch and streaming DataFrames. Tasks are the sources: each routes its own records in
    the order in which it reads them. What follows on the partitions, `mapInArrow` or a `groupBy`
    that includes the worker, is not shuffled again.

    Parameters
    ----------
    df
        The records. Their columns stay in the JVM; only a hash of the key visits Python.
    key
        The key: the name of a column, a Column, or several of them. Any type that Spark hashes.
    strategy
        A name of the registry, `module:Class`, or a strategy. See `skewless strategies`.
    workers
        The number of partitions. When it is not given: `spark.skewless.workers`, or else the number
        that the query's `ledger` began with, or else Spark's number of shuffle partitions.
    weight
        What a record costs, for strategies that take that into account; null, and whatever is not
        a finite number of at least 0, counts as 1.
    seed
        The seed of the routing; `spark.skewless.seed`, or else 0.
    ledger
        The folder in which the sources of a stream share what they learn; it survives restarts.
        One query and one `route` use it; a folder beside the checkpoint is a good place. None: a
        subfolder of `spark.skewless.ledger` named by the query's id; without that, every
        micro-batch begins with nothing learned.
    column
        The name of the new column.

    Examples
    --------
    >>> route(orders, "customer", strategy="cascade", workers=64)  # doctest: +SKIP
    """
    router = make_router(df, key, strategy=strategy, workers=workers, seed=seed, ledger=ledger)
    columns, _ = key_columns(df, key)
    if not isinstance(column, str) or not column:
        raise ValueError(f"column must be a name for the new column, not {column!r}")
    if column.lower() in [name.lower() for name in df.columns]:  # Spark would replace it
        raise ValueError(
            f"column: the DataFrame has a column {column!r} already; it has {', '.join(df.columns)}"
        )
    hashed = [F.xxhash64(*columns)]
    if weight is not None:
        hashed.append(weight_column(df, weight, router.routing.strategy))
    routed = df.withColumn(column, router_udf(router)(*hashed))
    return routed.repartitionById(router.routing.n_workers, F.col(quoted(column)))


def make_router(
    df: DataFrame,
    key: Key,
    *,
    strategy: str | AnyStrategy,
    workers: int | None,
    seed: int | None,
    ledger: str | None,
    state: Mapping[str, str] | None = None,
) -> Router:
    """Return the router for these arguments; raise ValueError for bad ones.

    `state` says what else of the query must be as it was when the ledger began.
    """
    spark = df.sparkSession
    _, names = key_columns(df, key)
    chosen = _strategy(strategy)
    n_workers = _workers(df, workers, ledger)
    if not 1 <= n_workers <= MOST_WORKERS:
        raise ValueError(f"workers must be 1 … {MOST_WORKERS:,}, not {n_workers}")
    seeded = _number(seed, "seed", spark, default=None)
    if seeded < 0:
        raise ValueError(f"seed must be at least 0, not {seeded}")
    identity = {
        "strategy": chosen.name,
        "parameters": json.dumps(parameters.as_dict(chosen), sort_keys=True, default=str),
        "workers": n_workers,
        "seed": seeded,
        "key": ", ".join(names),
        **(state or {}),
    }
    chosen_ledger, per_query = _ledger(df, ledger, identity)
    return Router(Routing(chosen, n_workers, seeded), chosen_ledger, per_query, identity)


def router_udf(router: Router) -> Any:
    """Return the column function: key hashes (and weights) to workers."""

    # Not deterministic in Spark's sense: the worker depends on the records before, so Spark must
    # neither evaluate it twice nor move a filter below it.
    def workers_of(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        yield from router.route(batches)

    def workers_of_hashes(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        yield from router.route((batch,) for batch in batches)

    def apply(*columns: Column) -> Column:
        function = workers_of_hashes if len(columns) == 1 else workers_of
        column: Column = arrow_udf(function, "int").asNondeterministic()(*columns)  # type: ignore[call-overload]
        return column

    return apply


def weight_column(df: DataFrame, weight: str | Column, strategy: AnyStrategy) -> Column:
    """Return the weights as numbers; raise ValueError if the strategy has no use for them."""
    if not isinstance(strategy, Weighs):
        able = [repr(name) for name in registry.names() if issubclass(registry.get(name), Weighs)]
        raise ValueError(
            f"weight: strategy {strategy.name!r} does not weigh records; {', '.join(able)} can, "
            "or leave out weight"
        )
    column = weight if isinstance(weight, Column) else df[quoted(existing(df, weight, "weight"))]
    field = computed(df, column, "weight")
    if not isinstance(field.dataType, NumericType):
        raise ValueError(
            f"weight: column {field.name!r} must be a number, not {field.dataType.simpleString()}"
        )
    cost = column.cast("double")
    return F.when((cost >= 0) & (cost < float("inf")), cost).otherwise(1.0)  # NaN is above infinity


def _strategy(strategy: str | AnyStrategy) -> AnyStrategy:
    if isinstance(strategy, str):
        return registry.make(strategy)
    if isinstance(strategy, type) or not all(
        hasattr(strategy, name) for name in ("name", "traits", "start", "route")
    ):
        raise ValueError(
            "strategy must be a name of the registry, 'module:Class', or a strategy such as "
            f"Cascade(), not {strategy!r}"
        )
    return strategy


def _workers(df: DataFrame, workers: int | None, ledger: str | None) -> int:
    """Return the number that is asked for, else the one that the ledger began with, else Spark's.

    Spark's number often follows the cores, and a restart on other cores is the same query.
    """
    spark = df.sparkSession
    asked = workers is not None or spark.conf.get("spark.skewless.workers", None) is not None
    if ledger is not None and df.isStreaming and not asked:
        workers = (Ledger(str(ledger)).identity() or {}).get("workers")
    return _number(workers, "workers", spark, default="spark.sql.shuffle.partitions")


def _number(value: int | None, name: str, spark: Any, *, default: str | None) -> int:
    text = value if value is not None else spark.conf.get(f"spark.skewless.{name}", None)
    if text is None:
        text = 0 if default is None else spark.conf.get(default)
    try:
        return parameters.whole_number(str(text))
    except (ValueError, OverflowError):
        raise ValueError(f"{name} must be a whole number, not {text!r}") from None


def _ledger(
    df: DataFrame, folder: str | None, identity: dict[str, Any]
) -> tuple[Ledger | None, bool]:
    """Return the ledger, and whether it has a folder for every query."""
    if not df.isStreaming:
        return None, False
    if folder is not None:
        ledger = Ledger(str(folder))
        ledger.check(identity)
        return ledger, False
    root = df.sparkSession.conf.get("spark.skewless.ledger", None)
    if root is not None:
        return Ledger(str(root)), True
    warnings.warn(
        "no ledger: every micro-batch begins with nothing learned. Give ledger=, a folder "
        "beside the checkpoint, or set spark.skewless.ledger",
        stacklevel=4,
    )
    return None, False
