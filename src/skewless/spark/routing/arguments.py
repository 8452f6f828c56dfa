"""The arguments of `route`, which `aggregate` has too: checked, and resolved once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType

from skewless import registry
from skewless.parameters import require_all_stay
from skewless.plumbing.arguments import MOST_WORKERS, whole
from skewless.simulator.starting import require_capacities
from skewless.spark.ledger.ledger import Ledger, given_ledger
from skewless.spark.records import Records
from skewless.spark.routing import settings
from skewless.spark.routing.worker_steps import last_workers
from skewless.strategy import AnyStrategy, Rescales, Weighs


@dataclass(frozen=True)
class RoutingArguments:
    """What a user gave, or else what the settings of the session say."""

    workers: int
    capacities: tuple[float, ...] | None
    seed: int | None  # None: one is drawn
    ledger: Ledger | None
    untrusted_keys: bool  # whether strangers choose the keys
    measures_speeds: bool  # whether plans use the times that workers measure


def routing_arguments(
    df: DataFrame,
    workers: Any = None,
    capacities: ArrayLike | None = None,
    seed: Any = None,
    ledger: str | None = None,
    untrusted_keys: Any = None,
) -> RoutingArguments:
    """Return the arguments; raise ValueError for bad ones, even for those that have no effect."""
    spark = df.sparkSession
    given = given_ledger(ledger)
    n_workers = number_of_workers(df, settings.given_workers(workers, spark), given)
    speeds = None  # equal ones are kept: workers that differed before may be equal from now on
    if capacities is not None:
        speeds = tuple(require_capacities(capacities, n_workers, may_be_0=True).tolist())
    flags = (settings.are_untrusted(untrusted_keys, spark), settings.are_speeds_measured(spark))
    return RoutingArguments(n_workers, speeds, settings.given_seed(seed, spark), given, *flags)


def number_of_workers(df: DataFrame, given: int | None, ledger: Ledger | None = None) -> int:
    """Return the number that was given, else the last one of the ledger, else Spark's.

    The ledger comes before Spark's number because that number often follows the cores, and a query
    may restart on a machine with other cores. A ledger below `spark.skewless.ledger` is not known
    before the query starts.
    """
    found: Any = given
    if found is None and ledger is not None and df.isStreaming:
        found = last_workers(ledger)
    if found is None:
        found = df.sparkSession.conf.get("spark.sql.shuffle.partitions")
    return whole(found, "workers", least=1, most=MOST_WORKERS)


def require_rescaling(strategy: AnyStrategy, capacities: Sequence[float]) -> None:
    """Raise ValueError if the strategy cannot use these capacities."""
    if not uses_capacities(strategy):
        able = [repr(name) for name in registry.names() if uses_capacities(registry.get(name)())]
        raise ValueError(
            f"capacities: strategy {strategy.name!r} ignores differences in speed; "
            f"use one of {', '.join(able)}, or leave out capacities"
        )
    if not strategy.traits.any_may_leave:
        require_all_stay(strategy.name, np.array(capacities))


def uses_capacities(strategy: AnyStrategy) -> bool:
    """Return whether workers of different speed get different parts."""
    return isinstance(strategy, Rescales) and not strategy.traits.ignores_speeds


def weight_column(records: Records, weight: str | Column, strategy: AnyStrategy) -> Column:
    """Return the weights as numbers; raise ValueError if the strategy does not weigh records."""
    if not isinstance(strategy, Weighs):
        able = [repr(name) for name in registry.names() if issubclass(registry.get(name), Weighs)]
        raise ValueError(
            f"weight: strategy {strategy.name!r} does not weigh records; {', '.join(able)} do: "
            "use one of them, or leave out weight"
        )
    return cost_column(records, weight)


def cost_column(records: Records, weight: str | Column) -> Column:
    """Build the column of what records cost; what cannot be a cost counts as 1."""
    column = weight
    if not isinstance(column, Column):
        column = records.column(records.existing(column, "weight"))
    field = records.computed(column, "weight")
    if not isinstance(field.dataType, NumericType):
        raise ValueError(
            f"weight: column {field.name!r} must be a number, not {field.dataType.simpleString()}"
        )
    cost = column.cast("double")
    return F.when((cost >= 0) & (cost < float("inf")), cost).otherwise(1.0)  # NaN is above infinity
