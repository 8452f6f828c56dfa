"""`sessions`: one row for all records of a key that follow each other without a long gap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from skewless.aggregations import Aggregation, ApproxDistinct
from skewless.aggregations.columns import in_order, plain
from skewless.arrays import Ints
from skewless.plumbing.arguments import shown
from skewless.spark.aggregation.arguments import AnyAggregation, chosen_aggregations
from skewless.spark.aggregation.state_layout import described
from skewless.spark.aggregation.windows import LONGEST
from skewless.spark.arrow_types import from_arrow_schema
from skewless.spark.columns import arrow_schema, internal, quoted
from skewless.spark.records import Key, Records
from skewless.spark.state.arguments import Placement, event_time, free_names, span
from skewless.spark.state.operators.held_rows import held, states_of, watermark_of
from skewless.spark.state.process import processed
from skewless.spark.state.processor import KeyedRecords, Processor, Update
from skewless.spark.state.schemas import GAP_FIELD
from skewless.spark.state.versions.state_tables import NO_TIME, later, micros_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

START, END, RECORDS = "start", "end", "records"
_TIME, _ENDS, _RECORD = internal("time"), internal("ends"), internal("record")


def sessions(
    df: DataFrame,
    key: Key,
    gap: str,
    aggs: Mapping[str, AnyAggregation] | None = None,
    *,
    watermark: tuple[str, str] | None = None,
    late_column: str | None = None,
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
    late_column
        The name of one more column of the result, with late records as structs: as for `process`.
    placement
        How keys are placed, the `ledger`, `batch_column` etc.: as for `process`.

    Examples
    --------
    >>> clicks = spark.range(3).selectExpr("'ann' as user", "timestamp_seconds(600*id*id) as ts")
    >>> found = sessions(clicks, "user", "20 minutes", watermark=("ts", "10 minutes"), workers=2)
    >>> [(str(row.end - row.start), row.records) for row in found.sort("start").collect()]
    [('0:30:00', 2), ('0:20:00', 1)]
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
    kind = records.schema[time].dataType
    sent_as = {column: f"{_TIME}.{column}" for column in inputs}
    processor = Sessions(by.named_fields, kind, length, _TIME, sent_as, chosen, types)
    if late_column is not None:
        arrow_schema(records.schema, "df")  # by the user's names
        columns.append(F.struct(*map(records.column, records.names)).alias(_RECORD))
    sent = Records.with_names(df.select(*keys, at.alias(_TIME), ends.alias(_ENDS), *columns))
    sent_key = replace(by, columns=tuple(sent.column(name) for name in by.names))
    watermark = (_ENDS, f"{length + delay} microseconds")
    sent = replace(sent, key=sent_key)
    found = processed(sent, processor, placement, watermark, late_column=late_column)
    if late_column is None:
        return found
    return found.withColumn(late_column, F.col(quoted(late_column))[_RECORD])


class Sessions(Processor):
    """Keeps the open sessions of each key: begin, end, records, and partial results."""

    def __init__(
        self,
        keys: list[T.StructField],
        kind: T.DataType,  # of the event time
        gap: int,  # in microseconds
        time: str,  # a column
        inputs: Mapping[str, str],  # that aggregations read, with their names in the records
        aggregations: Mapping[str, Aggregation],  # by the names of their results
        types: Mapping[str, pa.DataType],  # of the inputs
    ) -> None:
        self.gap, self.time = gap, time
        # States and watermark depend on the gap. So a ledger with another gap is refused.
        self.field = f"{GAP_FIELD}{gap // 1000}_ms"
        self.inputs, self.aggregations = dict(inputs), dict(aggregations)
        self.partials: list[tuple[Aggregation, list[str], list[pa.DataType]]] = []
        # Partial results of different aggregations can look alike. So a ledger of others is
        # refused.
        texts = [f"{name} = {described(one)}" for name, one in sorted(self.aggregations.items())]
        self.meaning = {"aggregations": ", ".join(texts)} if texts else {}
        held_fields = [(START, pa.int64()), (END, pa.int64()), (RECORDS, pa.int64())]
        results = [(START, kind), (END, kind), (RECORDS, T.LongType())]
        for name, one in self.aggregations.items():
            own = [types[column] for column in one.inputs]
            kinds = one.state_types(own)
            names = [f"{name}_{place}" for place in range(len(kinds))]
            self.partials.append((one, names, kinds))
            result = from_arrow_schema(pa.schema([(name, one.result_type(own))]))
            results.append((name, result[0].dataType))
        # By name, so that the same aggregations in another order find their partial results.
        for _, names, kinds in sorted(self.partials, key=lambda partial: partial[1]):
            held_fields += list(zip(names, kinds, strict=True))
        self.held_names = [name for name, _ in held_fields]
        row = from_arrow_schema(pa.schema(held_fields))
        self.state_schema = T.StructType().add(self.field, T.ArrayType(row))
        self.state_schema.add("expires", T.TimestampType())
        self.result_schema = T.StructType([*keys, *[T.StructField(n, t) for n, t in results]])
        self.times = arrow_schema(T.StructType([T.StructField(START, kind)]), "watermark").types[0]

    def update(self, keyed: KeyedRecords) -> Update:
        """Begin, extend and join sessions by the records; no session ends here."""
        times, codes = micros_of(keyed.records[self.time]), keyed.positions
        known = np.flatnonzero(times != NO_TIME)
        times, codes = times[known], codes[known]
        before, owners = held(keyed, self.field)
        fields = _fields(before)
        starts = np.concatenate([_numbers(fields[START]), times])
        ends = np.concatenate([_numbers(fields[END]), later(times, self.gap)])
        records = np.concatenate([_numbers(fields[RECORDS]), np.ones(times.size, np.int64)])
        codes = np.concatenate([owners, codes])
        order = in_order(codes, starts)
        first = _first_of_sessions(codes[order], starts[order], ends[order])
        n_sessions = int(first.sum())
        session = np.empty(codes.size, np.int64)
        session[order] = np.cumsum(first) - 1
        begins = np.flatnonzero(first)
        columns: dict[str, Any] = {START: pa.array(starts[order][first])}
        columns[END] = columns[RECORDS] = pa.array([], pa.int64())
        if n_sessions:
            columns[END] = pa.array(np.maximum.reduceat(ends[order], begins))
            columns[RECORDS] = pa.array(np.add.reduceat(records[order], begins))
        n_held = len(owners)
        for one, names, kinds in self.partials:
            parts = [
                plain(keyed.records[self.inputs[column]]).take(pa.array(known))
                for column in one.inputs
            ]
            new = one.update(parts, session[n_held:], n_sessions)
            if n_held:
                old = [fields[name].cast(kind) for name, kind in zip(names, kinds, strict=True)]
                both = [
                    pa.concat_arrays([a, b.cast(a.type)]) for a, b in zip(old, new, strict=True)
                ]
                places = np.concatenate([session[:n_held], np.arange(n_sessions)])
                new = one.merge(both, places, n_sessions)
            columns.update(zip(names, new, strict=True))
        return Update(None, self._states(columns, codes[order][first], len(keyed)))

    def on_expiry(self, keyed: KeyedRecords) -> Update:
        """Return the sessions that are over."""
        rows, codes = held(keyed, self.field)
        over = _numbers(rows.flatten()[1]) <= watermark_of(keyed)
        ended = rows.filter(pa.array(over))
        fields = _fields(ended)
        results = keyed.keys.take(pa.array(codes[over]))
        for name in (START, END):
            results = results.append_column(name, fields[name].cast(self.times))
        results = results.append_column(RECORDS, fields[RECORDS])
        for name, (one, names, kinds) in zip(self.aggregations, self.partials, strict=True):
            states = [fields[n].cast(kind) for n, kind in zip(names, kinds, strict=True)]
            results = results.append_column(name, one.finish(states))
        rest = _fields(rows.filter(pa.array(~over)))
        return Update(results, self._states(rest, codes[~over], len(keyed)))

    def _states(self, columns: dict[str, Any], codes: Ints, n_keys: int) -> pa.StructArray:
        names = self.held_names
        rows = pa.StructArray.from_arrays([plain(columns[name]) for name in names], names)
        return states_of({self.field: (rows, codes)}, _numbers(columns[END]), codes, n_keys)


def _first_of_sessions(codes: Ints, starts: Ints, ends: Ints) -> Any:
    """Return which rows begin a session; they are in the order of key and start.

    As in Spark, a row continues a session that ends when the row starts, or later.
    """
    first = np.ones(codes.size, np.bool_)
    if codes.size < 2:
        return first
    # The latest end so far of each key. Key and end become one number that grows with the key, so
    # an end of the key before never counts.
    distinct, places = np.unique(ends, return_inverse=True)
    both = np.maximum.accumulate(codes * distinct.size + places)
    latest = distinct[both - codes * distinct.size]
    first[1:] = (codes[1:] != codes[:-1]) | (starts[1:] > latest[:-1])
    return first


def _fields(rows: Any) -> dict[str, Any]:
    return dict(zip((field.name for field in rows.type), rows.flatten(), strict=True))


def _numbers(column: Any) -> Ints:
    numbers: Ints = column.to_numpy(zero_copy_only=False)
    return numbers
