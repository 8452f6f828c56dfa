"""Checks the arguments of `process` before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import pyarrow as pa
from numpy.typing import ArrayLike
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from skewless import registry
from skewless.plumbing.arguments import MOST_WORKERS, shown, whole
from skewless.simulator.starting import require_capacities
from skewless.spark.aggregation.windows import microseconds
from skewless.spark.columns import (
    GroupingKey,
    arrow_schema,
    existing,
    internal,
    quoted,
    require_arrow_key,
    require_arrow_types,
)
from skewless.spark.ledger.ledger import Ledger, LedgerMismatch
from skewless.spark.ledger.names import state_plan_name
from skewless.spark.routing.arguments import number_of_workers
from skewless.spark.routing.query_ledger import QueryLedger, query_ledger
from skewless.spark.routing.settings import given_seed, given_workers
from skewless.spark.state.grouping import N_OURS, SentColumns
from skewless.spark.state.planning.placing import as_moving
from skewless.spark.state.planning.state_plan import more_of
from skewless.spark.state.processor import Processor
from skewless.spark.state.schemas import Shape, require_same_states
from skewless.spark.state.versions import bases
from skewless.strategy import AnyStrategy

#: The strategy of "auto".
AUTO = "mixed"
#: How many times faster than another a worker may be.
_FARTHEST = 1_000_000
#: Internal columns that are sent with each record: its key's hash, its worker, its source
#: partition.
HASH, WORKER, _SOURCE = internal("hash"), internal("worker"), internal("source")


@dataclass(frozen=True, eq=False)
class Sending:
    """The columns that are sent to workers, and how a worker reads them."""

    columns: list[Column]  # the source partition, computed columns of the key, the records
    key: list[Column]  # by their names among those columns
    sent: SentColumns


def sending(
    df: DataFrame, key: GroupingKey, watermark: tuple[str, int] | None, order_by: list[str]
) -> Sending:
    """Build the columns that are sent to workers, and the places where a worker finds them."""
    inputs = [internal(f"input_{number}") for number in range(len(df.columns))]
    extra: list[tuple[str, Column, StructField]] = []
    places: list[int] = []
    names: list[str] = []
    require_arrow_key(key)
    for number, (name, column, grouped, field) in enumerate(
        zip(key.names, key.columns, key.grouped, key.fields, strict=True)
    ):
        is_plain = name in df.columns and grouped is column and _is_that_column(df, name, column)
        if is_plain:
            places.append(-len(inputs) + df.columns.index(name))
            names.append(inputs[df.columns.index(name)])
        else:
            names.append(internal(f"key_{number}"))
            places.append(N_OURS + len(extra))
            extra.append((names[-1], grouped, field))
    fields = [StructField(n, f.dataType) for n, _, f in extra]
    fields += [StructField(n, f.dataType) for n, f in zip(inputs, df.schema.fields, strict=True)]
    require_arrow_types(df.schema, "df")  # by the user's names, not by ours
    records = arrow_schema(StructType(fields), "df")
    ours = pa.schema([(HASH, pa.int64()), (WORKER, pa.int32()), (_SOURCE, pa.int32())])
    schema = pa.schema([*ours, *records])
    n_columns = len(schema)

    def place(name: str) -> int:
        return n_columns - len(inputs) + df.columns.index(name)

    sent = SentColumns(
        schema,
        tuple(df.columns),
        tuple(p if p >= 0 else n_columns + p for p in places),
        key.names,
        tuple(place(name) for name in order_by),
        None if watermark is None else place(watermark[0]),
    )
    chosen = [F.spark_partition_id().alias(_SOURCE)]
    chosen += [column.alias(name) for name, column, _ in extra]
    chosen += [df[quoted(c)].alias(name) for c, name in zip(df.columns, inputs, strict=True)]
    return Sending(chosen, [F.col(name) for name in names], sent)


def _is_that_column(df: DataFrame, name: str, column: Column) -> bool:
    """Return whether a part of a key is a column of the DataFrame, and not computed from it."""
    return str(column) == str(df[quoted(name)])


def unique_columns(df: DataFrame) -> None:
    """Raise ValueError if two columns have the same name: a processor reads columns by name."""
    for name in df.columns:
        existing(df, name, "df")


def time_and_delay(df: DataFrame, watermark: Any) -> tuple[str, int] | None:
    """Return the column of event time and the delay in microseconds."""
    if watermark is None:
        return None
    if not isinstance(watermark, tuple | list) or len(watermark) != 2:
        raise ValueError(
            "watermark must be the column of event time and a delay, like ('ts', '10 minutes'), "
            f"not {shown(watermark)}"
        )
    name = existing(df, watermark[0], "watermark")
    delay = microseconds(watermark[1], "watermark")
    if delay < 0:
        raise ValueError(f"watermark: the delay must be at least 0, not {watermark[1]!r}")
    kind = df.schema[name].dataType
    if not isinstance(kind, TimestampType | TimestampNTZType):
        raise ValueError(
            f"watermark: column {name!r} must be a timestamp, not {kind.simpleString()}"
        )
    return name, delay


def check_second_stream(df: DataFrame, processor: Processor) -> None:
    """Raise ValueError unless the column `second_stream` of the processor exists and is boolean."""
    if processor.second_stream is None:
        return
    what = f"{type(processor).__name__}: second_stream"
    kind = df.schema[existing(df, processor.second_stream, what)].dataType
    if not isinstance(kind, BooleanType):
        raise ValueError(
            f"{what}: column {processor.second_stream!r} must be boolean, not {kind.simpleString()}"
        )


def ordering(df: DataFrame, order_by: Any) -> list[str]:
    """Return the columns that order the records of a key."""
    if order_by is None:
        return []
    names = [order_by] if isinstance(order_by, str) else order_by
    if not isinstance(names, list | tuple):
        raise ValueError(f"order_by must be a column's name or several, not {shown(order_by)}")
    return [existing(df, name, "order_by") for name in names]


def moving_strategy(strategy: Any) -> AnyStrategy:
    """Return the strategy that was asked for; raise ValueError unless it can place state."""
    chosen = AUTO if isinstance(strategy, str) and strategy == "auto" else strategy
    return as_moving(registry.strategy_of(chosen))


@dataclass(frozen=True)
class Workers:
    """How many workers there are."""

    first: int  # for a query without state
    asked: int | None
    most: int


def first_and_most_workers(
    df: DataFrame, workers: Any, max_workers: Any, ledger: Ledger | None
) -> Workers:
    """Return the number of workers as for `route`, and room for more.

    Without a number, a query whose ledger is not known yet has Spark's number of partitions, and
    keeps its workers if there are no more of them.
    """
    asked = given_workers(workers, df.sparkSession)
    first = most = number_of_workers(df, asked, ledger, _workers_of_states)
    if max_workers is not None:
        most = whole(max_workers, "max_workers", least=1, most=MOST_WORKERS)
        if most < first and asked is not None:
            raise ValueError(f"max_workers must be at least workers ({first}), not {most}")
    return Workers(min(first, most), asked, most)


def _workers_of_states(ledger: Ledger) -> int | None:
    """Return the number of workers of the newest states, or None if there are none."""
    last = bases.newest(ledger)
    return None if last is None else last.workers


def speeds(capacities: ArrayLike | None, n_workers: int) -> tuple[float, ...] | None:
    """Return capacities that are 1 on average; raise ValueError unless there is one per worker.

    `n_workers` is the largest number of workers. Each keeps its speed when others come or go.
    """
    if capacities is None:
        return None
    found = require_capacities(capacities, n_workers)
    found = found / found.max()
    if found.min() * _FARTHEST < 1:
        raise ValueError(
            f"capacities must be at most {_FARTHEST:,} times apart, not {shown(capacities)}"
        )
    return tuple((found / found.mean()).tolist())


def state_ledger(
    df: DataFrame,
    key: GroupingKey,
    shape: Shape,
    seed: Any,
    ledger: Ledger | None,
    untrusted: bool,
) -> QueryLedger:
    """Build the `QueryLedger` of a query; raise ValueError if a stream has no ledger."""
    identity: dict[str, Any] = {
        "process": 1,
        "key": ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in key.named_fields),
        "skewless": version("skewless"),
    }
    if untrusted:
        identity["untrusted_keys"] = True
    query = query_ledger(df, identity, given_seed(seed, df.sparkSession), ledger)
    if df.isStreaming and query.ledger is None:
        raise ValueError(
            "ledger: process keeps the states of a stream there: give ledger=, a folder beside "
            "the checkpoint, or set spark.skewless.ledger"
        )
    if query.ledger is not None and not query.per_query:
        _check_states(query.ledger, shape)
    return query


def _check_states(ledger: Ledger, shape: Shape) -> None:
    """Raise LedgerMismatch if no version in the ledger fits the query.

    The checkpoint may be an older copy. So the version that the query builds on is known, and
    checked, only in its first micro-batch.
    """
    last = bases.newest(ledger)
    if last is None:
        return
    where = f"the ledger in {ledger.place}"
    wrong: LedgerMismatch | None = None
    for base in (last, *bases.all_complete(ledger)):
        entry = ledger.read(state_plan_name(base.batch, base.run))
        if entry is None:
            continue
        try:
            require_same_states(more_of(entry), shape, where)
        except LedgerMismatch as error:
            wrong = wrong or error
        else:
            return
    if wrong is not None:
        raise wrong


def free_names(names: list[str], taken: list[str], argument: str) -> None:
    """Raise ValueError if two columns of the result would have the same name."""
    lower = [name.lower() for name in taken]
    for name in names:
        if name.lower() in lower:
            raise ValueError(
                f"{argument}: {name!r} is the name of another column of the result "
                f"({', '.join(taken)}): rename it"
            )
