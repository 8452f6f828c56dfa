"""The arguments of `route`, which `aggregate` has too: checked, and resolved once.

Some of them may also be settings of the session: `spark.skewless.<name>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType

from skewless import registry
from skewless.plumbing.arguments import MOST_WORKERS, seed_number, shown, whole
from skewless.simulator.starting import require_capacities
from skewless.spark.ledger.ledger import Ledger
from skewless.spark.records import Records
from skewless.spark.routing.worker_steps import last_workers
from skewless.strategy import AnyStrategy, Rescales, Weighs


def _given(value: Any, name: str, spark: Any) -> tuple[Any, str]:
    """Return the argument, or else the setting, or None; and what a message calls it."""
    if value is not None:
        return value, name
    setting = f"spark.skewless.{name}"
    return spark.conf.get(setting, None), setting


def given_seed(seed: Any, spark: Any) -> int | None:
    """Return the seed that was given, or None."""
    value, name = _given(seed, "seed", spark)
    return None if value is None else seed_number(value, name)


def given_workers(workers: Any, spark: Any) -> int | None:
    """Return the number of workers that was given, or None."""
    value, name = _given(workers, "workers", spark)
    return None if value is None else whole(value, name, least=1, most=MOST_WORKERS)


def are_untrusted(untrusted_keys: Any, spark: Any) -> bool:
    """Return whether strangers choose the keys: the argument, or else the setting."""
    if untrusted_keys is None:
        return _is_true(*_given(None, "untrustedKeys", spark))
    return _is_true(untrusted_keys, "untrusted_keys")


def _is_true(value: Any, name: str) -> bool:
    text = str(value).lower()
    if value is not None and (not isinstance(value, bool | str) or text not in ("true", "false")):
        raise ValueError(f"{name} must be true or false, not {value!r}")
    return text == "true"


@dataclass(frozen=True)
class RoutingArguments:
    """What a user gave, or else what the settings of the session say."""

    workers: int
    capacities: tuple[float, ...] | None  # of as many workers as there can be
    seed: int | None  # None: one is drawn
    ledger: Ledger | None
    untrusted_keys: bool  # whether strangers choose the keys
    measures_speeds: bool  # whether plans use the times that workers measure
    asked: int | None  # the number of workers; None: it is that of the ledger
    most: int  # workers that the query has room for

    @property
    def speeds(self) -> tuple[float, ...] | None:
        """The capacities of the workers that there are at first."""
        return None if self.capacities is None else self.capacities[: self.workers]


def routing_arguments(
    df: DataFrame,
    workers: Any = None,
    capacities: ArrayLike | None = None,
    seed: Any = None,
    ledger: str | None = None,
    untrusted_keys: Any = None,
    max_workers: Any = None,
) -> RoutingArguments:
    """Return the arguments; raise ValueError for bad ones, even for those that have no effect."""
    spark = df.sparkSession
    given = None if ledger is None else Ledger(ledger)
    asked = given_workers(workers, spark)
    # The ledger comes before Spark's number, which often follows the cores: a query may restart on
    # a machine with others. A ledger below `spark.skewless.ledger` is not known before it starts.
    last = last_workers(given) if asked is None and given is not None and df.isStreaming else None
    n_workers = number_of_workers(df, asked if last is None else last)
    most = most_workers(max_workers, n_workers, asked)
    n_workers = min(n_workers, most)
    most = most if df.isStreaming else n_workers
    speeds = None  # equal ones are kept: workers that differed before may be equal from now on
    if capacities is not None:
        speeds = tuple(require_capacities(capacities, most, may_be_0=True).tolist())
        if not any(speeds[:n_workers]):
            raise ValueError(
                f"capacities must be above 0 for one of the first {n_workers} workers, not "
                f"{shown(capacities)}"
            )
    return RoutingArguments(
        n_workers,
        speeds,
        given_seed(seed, spark),
        given,
        are_untrusted(untrusted_keys, spark),
        _is_true(*_given(None, "measuredSpeeds", spark)),
        n_workers if last is None else None,
        most,
    )


def most_workers(max_workers: Any, n_workers: int, asked: int | None) -> int:
    """Return how many workers a query has room for; raise ValueError if too few for those asked."""
    if max_workers is None:
        return n_workers
    most = whole(max_workers, "max_workers", least=1, most=MOST_WORKERS)
    if most < n_workers and asked is not None:
        raise ValueError(f"max_workers must be at least workers ({n_workers}), not {most}")
    return most


def number_of_workers(df: DataFrame, given: int | None) -> int:
    """Return the number that was given, else that of Spark's shuffle partitions."""
    if given is not None:
        return given
    partitions = df.sparkSession.conf.get("spark.sql.shuffle.partitions")
    return whole(partitions, "workers", least=1, most=MOST_WORKERS)


def require_rescaling(strategy: AnyStrategy, capacities: Sequence[float]) -> None:
    """Raise ValueError if the strategy cannot use these capacities."""
    # If all that are there are alike, capacities only say who has left or come back.
    are_alike = len({speed for speed in capacities if speed > 0}) == 1
    if not uses_capacities(strategy) and not (are_alike and isinstance(strategy, Rescales)):
        able = [repr(name) for name in registry.names() if uses_capacities(registry.get(name)())]
        raise ValueError(
            f"capacities: strategy {strategy.name!r} ignores differences in speed; "
            f"use one of {', '.join(able)}, or leave out capacities"
        )


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
