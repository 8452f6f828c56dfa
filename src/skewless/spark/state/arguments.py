"""Checks the arguments of `process` before anything runs."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, TypedDict, get_args

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from skewless import registry
from skewless.plumbing.arguments import shown, text, whole
from skewless.spark.aggregation.windows import microseconds
from skewless.spark.columns import arrow_schema, internal
from skewless.spark.ledger.ledger import Ledger, LedgerCorrupt, LedgerTooNew, ledger_of_stream
from skewless.spark.records import Records
from skewless.spark.routing.arguments import (
    are_untrusted,
    given_seed,
    given_workers,
    most_workers,
    number_of_workers,
)
from skewless.spark.routing.query_ledger import QueryLedger, operator_name, query_ledger
from skewless.spark.state.grouping import SentColumns
from skewless.spark.state.planning.controller import Controller
from skewless.spark.state.planning.placing import as_moving
from skewless.spark.state.planning.spread_keys import SpreadRule
from skewless.spark.state.schemas import Shape
from skewless.spark.state.versions import bases
from skewless.spark.state.worker_step import Cost
from skewless.strategy import AnyStrategy

#: The strategy of "auto".
AUTO = "mixed"
_CLOSES = "closes_without_data"
#: Internal columns that are sent with each record: its key's hash, its worker, its source
#: partition.
HASH, WORKER, _SOURCE = internal("hash"), internal("worker"), internal("source")


class Placement(TypedDict, total=False):
    """Arguments of `process` that every operator on it has: how keys are placed on workers, etc."""

    strategy: str | AnyStrategy
    workers: int | None
    max_workers: int | None
    interval: int
    cost: Cost
    seed: int | None
    ledger: str | None
    untrusted_keys: bool | None
    batch_column: str | None
    closes_without_data: bool


@dataclass(frozen=True)
class Placed:
    """A placement, checked; with what settings and the ledger say where no argument was given."""

    controller: Controller
    cost: Cost
    untrusted: bool
    query: QueryLedger
    closes: bool  # states end without data


def placed(
    records: Records,
    placement: Placement,
    shape: Shape,
    delay: int | None = None,
    spread: SpreadRule | None = None,
) -> Placed:
    """Check a placement; raise ValueError for a bad argument, and TypeError for an unknown one.

    Without a number of workers, a query begins with Spark's number of partitions, and keeps its
    workers at a restart. If its ledger is not known yet, it has room for those of every query below
    `spark.skewless.ledger` that may be this one.
    """
    for name in placement:
        if name not in Placement.__annotations__:
            raise TypeError(f"process() got an unexpected keyword argument {name!r}")
    strategy = placement.get("strategy", "auto")
    is_auto = isinstance(strategy, str) and strategy == "auto"
    moving = as_moving(registry.strategy_of(AUTO if is_auto else strategy))
    cost = placement.get("cost", "records")
    if not isinstance(cost, str) or cost not in get_args(Cost):
        raise ValueError(f"cost must be 'records' or 'seconds', not {shown(cost)}")
    folder = placement.get("ledger")
    ledger = None if folder is None else Ledger(folder)
    asked = given_workers(placement.get("workers"), records.spark)
    last = None
    if asked is None and ledger is not None and records.is_stream:
        last = bases.newest(ledger)
    first = number_of_workers(records.df, asked if last is None else last.workers)
    most = most_workers(placement.get("max_workers"), first, asked)
    if [asked, folder, placement.get("max_workers")] == [None] * 3:
        most = max(most, _most_below_the_root(records))
    untrusted = are_untrusted(placement.get("untrusted_keys"), records.spark)
    seed = given_seed(placement.get("seed"), records.spark)
    interval = whole(placement.get("interval", 1), "interval", least=1)
    numbers = (min(first, most), asked, most, interval, delay)
    controller = Controller(moving, *numbers, spread)
    closes = placement.get(_CLOSES, False)
    if not isinstance(closes, bool):
        raise ValueError(f"{_CLOSES} must be True or False, not {shown(closes)}")
    if closes and delay is None:
        raise ValueError(
            f"{_CLOSES}: states end by the watermark: give watermark=(time column, delay)"
        )
    closes = closes and records.is_stream
    told = {"untrusted_keys": untrusted, _CLOSES: closes}
    query = _state_ledger(records, shape, seed, ledger, told)
    return Placed(controller, cost, untrusted, query, closes)


def _most_below_the_root(records: Records) -> int:
    """Return the most workers of a query in `spark.skewless.ledger` that may be this one, or 0.

    A ledger there has the id of its query, which is not known before the query starts. A query with
    another key is another one. If a ledger cannot be read, the query that it belongs to says so.
    """
    root, _ = ledger_of_stream(None, records.spark)
    key, found = _key_of(records), 0
    if root is None or not records.is_stream:
        return 0
    for name in root.files.folders(""):
        with contextlib.suppress(LedgerCorrupt, LedgerTooNew):
            ledger = root.below(name)
            began = ledger.identity() or {}
            last = bases.newest(ledger) if "process" in began and began.get("key") == key else None
            found = max(found, 0 if last is None else last.workers)
    return found


def _key_of(records: Records) -> str:
    return ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in records.key.named_fields)


def _state_ledger(
    records: Records, shape: Shape, seed: int | None, ledger: Ledger | None, told: dict[str, bool]
) -> QueryLedger:
    """Build the `QueryLedger` of a query; raise ValueError if a stream has no ledger."""
    ours = {"key": _key_of(records), "skewless": version("skewless")}
    identity: dict[str, Any] = {"process": 1, **ours}
    identity |= {name: True for name, value in told.items() if value}
    name = operator_name(shape.name, records.key.names)
    query = query_ledger(records.df, identity, seed, ledger).after(records.df, name)
    if records.is_stream and query.ledger is None:
        raise ValueError(
            "ledger: process keeps the states of a stream there: give ledger=, a folder beside "
            "the checkpoint, or set spark.skewless.ledger"
        )
    return query


@dataclass(frozen=True, eq=False)
class Sending:
    """The columns that are sent to workers, and how a worker reads them."""

    columns: list[Column]  # the source partition, computed columns of the key, the records
    key: list[Column]  # by their names among those columns
    sent: SentColumns


def sending(records: Records, watermark: tuple[str, int] | None, order_by: list[str]) -> Sending:
    """Build the columns that are sent to workers, and the places where a worker finds them."""
    names, key = records.names, records.key
    inputs = [internal(f"input_{number}") for number in range(len(names))]
    extra: list[tuple[str, Column, StructField]] = []
    sent_key: list[str] = []
    key.require_arrow_types()
    parts = zip(key.names, key.columns, key.grouped, key.fields, strict=True)
    for number, (name, column, grouped, field) in enumerate(parts):
        # A part of the key may be a column of the records, or computed from them.
        is_there = name in names and grouped is column
        if is_there and str(column) == str(records.column(name)):
            sent_key.append(inputs[names.index(name)])
        else:
            sent_key.append(internal(f"key_{number}"))
            extra.append((sent_key[-1], grouped, field))
    arrow_schema(records.schema, "df")  # by the user's names, not by ours
    fields = [StructField(n, f.dataType) for n, _, f in extra]
    fields += [StructField(n, f.dataType) for n, f in zip(inputs, records.schema, strict=True)]
    ours = pa.schema([(HASH, pa.int64()), (WORKER, pa.int32()), (_SOURCE, pa.int32())])
    schema = pa.schema([*ours, *arrow_schema(StructType(fields), "df")])
    place = {name: len(schema) - len(names) + at for at, name in enumerate(names)}
    sent = SentColumns(
        schema,
        tuple(names),
        tuple(schema.names.index(name) for name in sent_key),
        key.names,
        tuple(place[name] for name in order_by),
        None if watermark is None else place[watermark[0]],
    )
    chosen = [F.spark_partition_id().alias(_SOURCE)]
    chosen += [column.alias(name) for name, column, _ in extra]
    chosen += [records.column(c).alias(name) for c, name in zip(names, inputs, strict=True)]
    return Sending(chosen, [F.col(name) for name in sent_key], sent)


def event_time(records: Records, watermark: Any, verb: str = "process") -> tuple[str, int]:
    """Return the column of event time and the delay in microseconds."""
    if watermark is None:
        raise ValueError(
            f"watermark: {verb} works by event time: give watermark=(time column, delay), "
            "like ('ts', '10 minutes'); on a batch DataFrame the delay has no effect"
        )
    if not isinstance(watermark, tuple | list) or len(watermark) != 2:
        raise ValueError(
            "watermark must be the column of event time and a delay, like ('ts', '10 minutes'), "
            f"not {shown(watermark)}"
        )
    records.time(watermark[0], "watermark")
    delay = microseconds(watermark[1], "watermark")
    if delay < 0:
        raise ValueError(f"watermark: the delay must be at least 0, not {watermark[1]!r}")
    return watermark[0], delay


def span(duration: Any, argument: str) -> int:
    """Return a duration above 0 in microseconds; raise ValueError that names the argument."""
    micros = microseconds(duration, argument)
    if micros <= 0:
        raise ValueError(f"{argument} must be above 0, not {shown(duration)}")
    return micros


def check_streams(records: Records, shape: Shape, has_watermark: bool) -> None:
    """Raise ValueError unless states that should expire can do so."""
    name = shape.name
    if shape.follows_clock and has_watermark:
        raise ValueError(
            f"watermark: {name} has clock = 'processing', so states end by the time of the "
            "micro-batch: leave out watermark=, or the clock"
        )
    if records.is_stream and shape.expires and not (has_watermark or shape.follows_clock):
        why = "ttl" if shape.ttl is not None else "timers" if shape.timers else "a field 'expires'"
        raise ValueError(
            f"watermark: {name} has {why}, and states end by the watermark: give "
            "watermark=(time column, delay)"
        )


def ordering(records: Records, order_by: Any) -> list[str]:
    """Return the columns that order the records of a key."""
    if order_by is None:
        return []
    names = [order_by] if isinstance(order_by, str) else order_by
    if not isinstance(names, list | tuple):
        raise ValueError(f"order_by must be a column's name or several, not {shown(order_by)}")
    return [records.existing(name, "order_by") for name in names]


def result_schema(
    result: StructType, records: Records, has_time: bool, late: Any, errors: Any, batch: Any
) -> StructType:
    """Return the schema of the result with the columns that were asked for by their names."""
    if late is not None and not has_time:
        raise ValueError(
            "late_column needs watermark=(time column, delay): without a watermark no record is "
            "late"
        )
    texts = [StructField(name, StringType()) for name in ("error", "message")]
    error = StructType([StructField("key", _nullable(records.key.named_fields)), *texts])
    for argument, given, kind in (
        ("late_column", late, _nullable(records.schema.fields)),
        ("errors_column", errors, error),
        ("batch_column", batch, LongType()),
    ):
        if given is None:
            continue
        name = text(given, argument, "the name of a new column")
        free_names([name], result.names, argument)
        # The row of a late record, or of an error, has no results.
        fields = result if argument == "batch_column" else _nullable(result.fields)
        result = StructType([*fields, StructField(name, kind)])
    return result


def _nullable(fields: list[StructField]) -> StructType:
    return StructType([StructField(one.name, one.dataType) for one in fields])


def free_names(names: list[str], taken: list[str], argument: str) -> None:
    """Raise ValueError if two columns of the result would have the same name."""
    lower = [name.lower() for name in taken]
    for name in names:
        if name.lower() in lower:
            raise ValueError(
                f"{argument}: {name!r} is the name of another column of the result "
                f"({', '.join(taken)}): rename it"
            )
