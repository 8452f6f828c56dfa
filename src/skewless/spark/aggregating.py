"""`aggregate`: results per key, with the records of hot keys spread over all workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType, TimestampNTZType, TimestampType

from skewless.aggregations import (
    Aggregation,
    Aggregator,
    ApproxDistinct,
    CollectSet,
    PerKey,
    TopK,
)
from skewless.spark.block_merging import merge_blocks, merge_rows
from skewless.spark.blocks import FORMAT, N_SLOTS, Packing
from skewless.spark.columns import (
    Key,
    arrow_schema,
    existing,
    internal,
    key_columns,
    like_spark_groups,
    quoted,
)
from skewless.spark.combining import Combiner
from skewless.spark.native_merging import is_native, merge_natively, plain_type
from skewless.spark.partials import TIME, Partials
from skewless.spark.router import Router
from skewless.spark.routing import make_router, router_udf, weight_column
from skewless.spark.slots import ANY_PARTITIONS, check_slots, even_slots
from skewless.spark.state_layout import state_layout
from skewless.spark.windows import WATERMARK, Window, as_window, microseconds
from skewless.strategy import AnyStrategy

_WORKER = internal("worker")
_COST = internal("cost")
_WINDOW = "window"

AnyAggregation = Aggregation | Aggregator[Any] | ApproxDistinct


def aggregate(
    df: DataFrame,
    key: Key,
    aggs: Mapping[str, AnyAggregation],
    *,
    window: Window | tuple[str, ...] | None = None,
    watermark: str | None = None,
    strategy: str | AnyStrategy = "auto",
    workers: int | None = None,
    weight: str | Column | None = None,
    seed: int | None = None,
    ledger: str | None = None,
    mode: Literal["update", "append"] | None = None,
) -> DataFrame:
    """Return one row per key, or per window and key, with the results of `aggs`.

    The records are routed to workers by `strategy`; each worker combines its records into partial
    results; these are merged by key. The results are those of `groupBy`, whatever the strategy.
    Works on batch and streaming DataFrames; a stream is written as any other, with `writeStream`.

    Parameters
    ----------
    df
        The records.
    key
        The name of a column, a Column, or several of them.
    aggs
        What to compute, by the name of the result: ready ones of `skewless.aggregations`, or an
        `Aggregator` of your own.
    window
        Windows of event time: a `Window`, or (time column, size[, slide[, offset]]).
    watermark
        How late a record of a stream may be, e.g. "10 minutes". It takes the place of
        `withWatermark`, of which Spark allows one, and ours stands behind the combining.
    strategy
        A name of the registry or a strategy; "auto" is `cascade`, our own, or `hash` where an
        aggregator says that it cannot be merged.
    workers, weight, seed, ledger
        As for `route`.
    mode
        The output mode of the stream, where the merging is ours: with own aggregators and with
        variances. None: "append" with a watermark, else "update". Must be what you give to
        `writeStream.outputMode`. Ready aggregations but variances go with any mode.

    Examples
    --------
    >>> aggregate(  # doctest: +SKIP
    ...     trades, "symbol", {"vwap": aggs.vwap("price", "size")}, window=("ts", "1 minute")
    ... )
    """
    span = as_window(window)
    chosen = _aggregations(df, key, aggs, span)
    unmergeable = [n for n, a in aggs.items() if isinstance(a, Aggregator) and not a.merges]
    _check_times(df, key, span, watermark, mode)
    is_ours = not all(is_native(aggregation) for aggregation in aggs.values())
    layout = _layout(df, key, chosen, span) if is_ours and df.isStreaming else {}
    router = make_router(
        df,
        key,
        strategy=("hash" if unmergeable else "cascade") if _is_auto(strategy) else strategy,
        workers=workers,
        seed=seed,
        ledger=ledger,
        state=layout,
    )
    if unmergeable:
        _check_one_part(df, unmergeable[0], span, router.routing.strategy)
    cost = None if weight is None else weight_column(df, weight, router.routing.strategy)
    records = _records(df, key, chosen, span, cost)
    partials = _partials(df, records.schema, key, chosen, span)
    query = _Query(df, partials, dict(zip(partials.aggregations, aggs.values(), strict=True)), span)
    routed = _routed(records, partials.key, router)
    if not is_ours:
        merged = query.merged_by_spark(routed, router, watermark)
    elif df.isStreaming:
        closes = span is not None and watermark is not None
        chosen_mode = mode or ("append" if closes else "update")
        merged = query.merged_in_blocks(routed, router, watermark, chosen_mode, layout)
    else:
        merged = query.merged_in_rows(routed, router)
    names = [*([_WINDOW] if span is not None else []), *key_columns(df, key)[1], *aggs]
    return merged.toDF(*names)


@dataclass(frozen=True)
class _Query:
    """The pieces of one aggregation, and the three ways to put them together.

    All columns have names of ours until the end, so those of the user may be any: alike but for
    case, with dots, the same for a key and for the column that it is computed from.
    """

    df: DataFrame
    partials: Partials
    aggs: dict[str, AnyAggregation]  # as the user gave them
    window: Window | None

    def merged_by_spark(
        self, routed: DataFrame, router: Router, watermark: str | None
    ) -> DataFrame:
        """Partial results, then Spark's own aggregates."""
        partials = self.partials
        combined = self._combined(routed, router, None)
        grouping = [F.col(name) for name in partials.key]
        if self.window is not None:
            if watermark is not None and combined.isStreaming:
                combined = combined.withWatermark(TIME, watermark)
            # All records of a pane lie in the same windows, and so does the latest of them.
            grouping = [self.window.of(F.col(TIME)).alias(_WINDOW), *grouping]
        n_states = {
            name: len(aggregation.state_types(partials.input_types(aggregation)))
            for name, aggregation in partials.aggregations.items()
        }
        return merge_natively(combined, grouping, self.aggs, n_states, self.df)

    def merged_in_blocks(
        self,
        routed: DataFrame,
        router: Router,
        watermark: str | None,
        mode: str,
        layout: Mapping[str, str],
    ) -> DataFrame:
        """Partial results in blocks, then our own merging with state."""
        places = even_slots(N_SLOTS)
        check_slots(routed.sparkSession, places, ANY_PARTITIONS)
        packed = self._combined(routed, router, Packing(self.partials, places))
        merged = merge_blocks(packed, self.partials, self.window, watermark, mode, layout)
        return self._typed(merged)

    def merged_in_rows(self, routed: DataFrame, router: Router) -> DataFrame:
        """Partial results as rows, then our own merging, at once."""
        combined = self._combined(routed, router, None)
        return self._typed(merge_rows(combined, self.partials, self.window))

    def _combined(self, routed: DataFrame, router: Router, packing: Packing | None) -> DataFrame:
        combiner = Combiner(self.partials, router, packing)
        schema = packing.schema if packing else self.partials.table_schema
        records = routed.drop(_WORKER, _COST)
        return records.mapInArrow(combiner.combine, from_arrow_schema(schema))

    def _typed(self, merged: DataFrame) -> DataFrame:
        """Return our own results as Spark's would be: the types of wide means, no empty tops."""
        for name, aggregation in self.aggs.items():
            if isinstance(aggregation, TopK):
                merged = merged.withColumn(name, F.when(F.size(name) > 0, F.col(name)))
            kind = plain_type(aggregation, self.df)
            ours = merged.schema[name].dataType
            if kind is not None and kind.simpleString() != ours.simpleString():
                merged = merged.withColumn(name, F.col(name).cast(kind))
        return merged


def _routed(records: DataFrame, names: Sequence[str], router: Router) -> DataFrame:
    hashed = [F.xxhash64(*[F.col(name) for name in names])]
    if _COST in records.columns:
        hashed.append(F.col(_COST))
    routed = records.withColumn(_WORKER, router_udf(router)(*hashed))
    return routed.repartitionById(router.routing.n_workers, F.col(_WORKER))


def _records(
    df: DataFrame,
    key: Key,
    aggregations: Mapping[str, Aggregation],
    window: Window | None,
    cost: Column | None,
) -> DataFrame:
    """Return what leaves the source: the time, the key as Spark groups it, inputs, and the cost."""
    columns, _ = key_columns(df, key)
    kinds = [field.dataType for field in df.select(*columns).schema.fields]
    chosen = [df[quoted(window.time)].alias(TIME)] if window is not None else []
    for number, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
        chosen.append(like_spark_groups(column, kind).alias(internal(f"key_{number}")))
    for number, name in enumerate(_inputs(aggregations)):
        chosen.append(df[quoted(name)].alias(internal(f"input_{number}")))
    if cost is not None:
        chosen.append(cost.alias(_COST))
    return df.select(*chosen)


def _partials(
    df: DataFrame,
    schema: StructType,
    key: Key,
    aggregations: Mapping[str, Aggregation],
    window: Window | None,
) -> Partials:
    """Return how records become partial results; aggregations find inputs by the user's names."""
    fields = [field for field in schema.fields if field.name != _COST]
    inputs = _inputs(aggregations)
    ours = [field.name for field in fields[: len(fields) - len(inputs)]]
    columns, names = key_columns(df, key)
    arrow_schema(StructType([*df.select(*columns).schema.fields]), "key")  # names the user's
    kinds = arrow_schema(StructType(fields), "aggs").types
    described = pa.schema(list(zip([*ours, *inputs], kinds, strict=True)))
    numbered = {
        internal(f"result_{number}"): aggregation
        for number, aggregation in enumerate(aggregations.values())
    }
    pane, begin = (window.pane, window.begin) if window else (None, 0)
    return Partials(described, tuple(ours[-len(names) :]), numbered, pane, begin)


def _layout(
    df: DataFrame, key: Key, aggregations: Mapping[str, Aggregation], window: Window | None
) -> dict[str, str]:
    """Return what the state of our own merging is made of."""
    records = _records(df, key, aggregations, window, None)
    partials = _partials(df, records.schema, key, aggregations, window)
    return state_layout(FORMAT, partials, key_columns(df, key)[1], list(aggregations), window)


def _inputs(aggregations: Mapping[str, Aggregation]) -> list[str]:
    return list(dict.fromkeys(name for agg in aggregations.values() for name in agg.inputs))


def _aggregations(
    df: DataFrame, key: Key, aggs: Mapping[str, AnyAggregation], window: Window | None
) -> dict[str, Aggregation]:
    """Return the aggregations as the combining wants them; raise ValueError for bad ones."""
    if not isinstance(aggs, Mapping) or not aggs:
        raise ValueError(
            f"aggs must be a mapping of names to aggregations, like {{'n': count()}}, not {aggs!r}"
        )
    names = key_columns(df, key)[1]
    if window is not None and _WINDOW in names:
        raise ValueError(f"key: {_WINDOW!r} is the name of the windows' column: rename the key")
    native = all(is_native(aggregation) for aggregation in aggs.values())
    chosen: dict[str, Aggregation] = {}
    for name, aggregation in aggs.items():
        if not isinstance(name, str) or not name:
            raise ValueError(f"aggs: a result's name must be a text, not {name!r}")
        if name in names or (window is not None and name == _WINDOW):
            raise ValueError(
                f"aggs: {name!r} is the name of a key column or of the window already; "
                "choose another one for the result"
            )
        if isinstance(aggregation, ApproxDistinct):
            if not native:
                raise ValueError(
                    f"aggs: {name!r}: approximate distinct counts are merged by Spark, variances "
                    "and own aggregators by us: compute them in two calls"
                )
            chosen[name] = CollectSet(aggregation.column)
        elif isinstance(aggregation, Aggregator):
            chosen[name] = PerKey(aggregation)
        elif isinstance(aggregation, Aggregation):
            chosen[name] = aggregation
        else:
            raise ValueError(
                f"aggs: {name!r} must be an aggregation of skewless.aggregations or an "
                f"Aggregator, not {aggregation!r}"
            )
        for column in chosen[name].inputs:
            existing(df, column, f"aggs: {name!r}")
        inputs = df.select(*[quoted(column) for column in chosen[name].inputs]).schema
        try:
            chosen[name].state_types(arrow_schema(inputs, "inputs").types)  # refuses wrong types
        except ValueError as error:
            raise ValueError(f"aggs: {name!r}: {error}") from error
    return chosen


def _is_auto(strategy: str | AnyStrategy) -> bool:
    return isinstance(strategy, str) and strategy == "auto"


def _check_one_part(df: DataFrame, name: str, window: Window | None, strategy: AnyStrategy) -> None:
    """Raise ValueError unless all records of a key, or of its window, come together at once."""
    cannot = f"aggs: {name!r} does not merge (its class says merges = False), so it cannot be "
    if df.isStreaming:
        raise ValueError(cannot + "computed on a stream, one micro-batch after the other")
    if window is not None and window.pane != microseconds(window.size):
        raise ValueError(cannot + "computed for windows that overlap: leave out the slide")
    if strategy.traits.family == "splitting":
        raise ValueError(cannot + f"split by {strategy.name!r}: use strategy='hash'")


def _check_times(
    df: DataFrame, key: Key, window: Window | None, watermark: str | None, mode: str | None
) -> None:
    if watermark is not None:
        if window is None:
            raise ValueError(
                f"watermark {watermark!r} goes with window: without windows nothing ever closes"
            )
        if microseconds(watermark, "watermark") < 0:
            raise ValueError(f"watermark must be at least 0, not {watermark!r}")
    if mode not in (None, "update", "append"):
        raise ValueError(f"mode must be 'update' or 'append', not {mode!r}")
    if mode == "append" and watermark is None:
        raise ValueError("mode 'append' needs a window and a watermark: nothing ever closes")
    # Without windows a watermark matters where the key is a time that it passes.
    seen = df.select(*key_columns(df, key)[0]) if window is None else df
    if df.isStreaming and any(WATERMARK in field.metadata for field in seen.schema.fields):
        raise ValueError(
            "the DataFrame has a watermark already; Spark allows one, and ours stands behind the "
            "combining: leave out withWatermark and give window= and watermark= instead"
        )
    if window is None:
        return
    kind = df.schema[existing(df, window.time, "window")].dataType
    if not isinstance(kind, TimestampType | TimestampNTZType):
        raise ValueError(
            f"window: column {window.time!r} must be a timestamp, not {kind.simpleString()}"
        )
    if df.isStreaming and watermark is not None and isinstance(kind, TimestampNTZType):
        raise ValueError(
            f"watermark: Spark wants a timestamp with time zone for it, and column {window.time!r} "
            "is timestamp_ntz: cast it to timestamp"
        )
