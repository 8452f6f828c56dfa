"""`sessions`: one row for all records of a key that follow each other without a long gap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skewless.aggregations import Aggregation, ApproxDistinct
from skewless.plumbing.arguments import shown
from skewless.spark.aggregation.arguments import chosen_aggregations, with_reducers
from skewless.spark.aggregation.asked import AnyAggregation
from skewless.spark.aggregation.windows import LONGEST
from skewless.spark.columns import internal
from skewless.spark.records import Key, Records
from skewless.spark.state.arguments import Placement, event_time, free_names, span
from skewless.spark.state.operators.session_processor import END, RECORDS, START, Sessions
from skewless.spark.state.process import processed

if TYPE_CHECKING:
    from typing_extensions import Unpack

_TIME, _ENDS = internal("time"), internal("ends")


def sessions(
    df: DataFrame,
    key: Key,
    gap: str,
    aggs: Mapping[str, AnyAggregation] | None = None,
    *,
    watermark: tuple[str, str] | None = None,
    **placement: Unpack[Placement],
) -> DataFrame:
    """Return one row per session: records of a key with at most `gap` from one to the next.

    The result has the columns of the key, `start`, `end`, `records`, and one column per
    aggregation. As in Spark's `session_window`, `start` is the time of the first record, and `end`
    is the time of the last one plus the gap. A session is returned once, when the watermark passes
    its end. Null is a key like any other; a record without a time is in no session.

    As in Spark, a record is late, and dropped, if the watermark has passed its time plus the gap.

    Parameters
    ----------
    df
        The records, a stream or a batch DataFrame.
    key
        The name of a column, a Column, or several of them.
    gap
        The longest time between two records of a session: "30 minutes".
    aggs
        Names and aggregations over the records of a session, as for `aggregate`:
        {"total": aggregations.sum("price")}.
    watermark
        The column of event time, and how late a record may be: ("ts", "10 minutes").
    placement
        `strategy`, `workers`, `max_workers`, `capacities`, `interval`, `window`, `cost`, `seed`,
        `ledger` and `untrusted_keys`, as for `process`.

    Examples
    --------
    >>> sessions(  # doctest: +SKIP
    ...     clicks, "user", "30 minutes", watermark=("ts", "10 minutes"), ledger="/data/ledger"
    ... )
    """
    records = Records.with_names(df).by(key)
    by = records.key
    time, delay = event_time(records, watermark, "sessions")
    length = span(gap, "gap")
    if length % 1000 or length + delay > LONGEST:
        raise ValueError(f"gap must be whole milliseconds below 146,000 years, not {shown(gap)}")
    ours = [START, END, RECORDS]
    free_names(list(by.names), ours, "key")
    chosen: dict[str, Aggregation] = {}
    read: dict[str, Column] = {}
    if aggs is not None:
        aggs = with_reducers(aggs)
        chosen, read = chosen_aggregations(records, aggs, None)
    free_names(list(chosen), ours, "aggs")
    for name, one in chosen.items():
        if isinstance((aggs or {})[name], ApproxDistinct):
            raise ValueError(f"aggs: {name!r}: approximate distinct counts need Spark's merging")
        if not one.merges:
            raise ValueError(f"aggs: {name!r} does not merge (its class says merges = False)")
    inputs = sorted({column for one in chosen.values() for column in one.inputs})
    columns = [read[column].alias(f"{_TIME}.{column}") for column in inputs]
    at = records.column(time)
    # The latest of these ends minus gap and delay is the latest time minus the delay. A record is
    # late if its end, not its time, is at most that.
    ends = at + F.expr(f"INTERVAL {length} MICROSECONDS")
    keys = [column.alias(name) for column, name in zip(by.columns, by.names, strict=True)]
    types = dict(zip(inputs, records.arrow_types(columns, "aggs"), strict=True))
    processor = Sessions(
        by.named_fields,
        records.schema[time].dataType,
        length,
        _TIME,
        {column: f"{_TIME}.{column}" for column in inputs},
        chosen,
        types,
    )
    sent = Records.with_names(df.select(*keys, at.alias(_TIME), ends.alias(_ENDS), *columns))
    sent_key = replace(by, columns=tuple(sent.column(name) for name in by.names))
    return processed(
        replace(sent, key=sent_key),
        processor,
        placement,
        watermark=(_ENDS, f"{length + delay} microseconds"),
    )
