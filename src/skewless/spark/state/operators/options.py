"""Arguments of all ready operators, checked: placement of keys, event times, durations."""

from __future__ import annotations

from typing import Any, TypedDict

from numpy.typing import ArrayLike
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType

from skewless.plumbing.arguments import shown
from skewless.spark.aggregation.windows import microseconds
from skewless.spark.state.arguments import time_and_delay
from skewless.spark.state.worker_step import Cost
from skewless.strategy import AnyStrategy


class Placement(TypedDict, total=False):
    """How keys are placed on workers; every operator passes this to `process`."""

    strategy: str | AnyStrategy
    workers: int | None
    max_workers: int | None
    capacities: ArrayLike | None
    interval: int
    window: int
    cost: Cost
    seed: int | None
    ledger: str | None
    untrusted_keys: bool | None


def event_time(df: DataFrame, watermark: Any, verb: str) -> tuple[str, int, DataType]:
    """Return the column of event time, the delay in microseconds, and the type of the column."""
    found = time_and_delay(df, watermark)
    if found is None:
        raise ValueError(
            f"watermark: {verb} works by event time: give watermark=(time column, delay), "
            "like ('ts', '10 minutes'); on a batch DataFrame the delay has no effect"
        )
    name, delay = found
    return name, delay, df.schema[name].dataType


def span(duration: Any, argument: str) -> int:
    """Return a duration above 0 in microseconds; raise ValueError that names the argument."""
    micros = microseconds(duration, argument)
    if micros <= 0:
        raise ValueError(f"{argument} must be above 0, not {shown(duration)}")
    return micros
