"""`aggregate`: results per key, with the records of hot keys spread over all workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType, TimestampNTZType, TimestampType

from skewless.aggregations import Aggregation, Aggregator, ApproxDistinct, CollectSet, PerKey
from skewless.spark.block_merging import merge_blocks, merge_rows
from skewless.spark.blocks import Packing
from skewless.spark.columns import Key, existing, internal, key_columns, like_spark_groups
from skewless.spark.combining import Combiner
from skewless.spark.native_merging import is_native, merge_natively
from skewless.spark.partials import TIME, Partials
from skewless.spark.router import Router
from skewless.spark.routing import make_router, router_udf, weight_column
from skewless.spark.slots import check_slots, slots
from skewless.spark.windows import Window, as_window, microseconds
from skewless.strategy import AnyStrategy

_WORKER = internal("worker")
_SLOTS_PER_PARTITION = 4

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
        A name of the registry or a strategy; "auto" is `cascade`, our own.
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
    _check_times(df, span, watermark, mode)
    router = make_router(
        df,
        key,
        strategy="cascade" if isinstance(strategy, str) and strategy == "auto" else strategy,
        workers=workers,
        seed=seed,
        ledger=ledger,
    )
    cost = None if weight is None else weight_column(df, weight, router.routing.strategy)
    records = _records(df, key, chosen, span)
    names = key_columns(df, key)[1]
    routed = _routed(df, records, names, router, cost)
    query = _Query(records, names, chosen, span, watermark, router)
    if all(is_native(aggregation) for aggregation in aggs.values()):
        return query.merged_by_spark(routed, aggs)
    if df.isStreaming:
        closes = span is not None and watermark is not None
        return query.merged_in_blocks(routed, mode or ("append" if closes else "update"))
    return query.merged_in_rows(routed)


@dataclass(frozen=True)
class _Query:
    """The pieces of one aggregation, and the three ways to put them together."""

    records: DataFrame
    key: list[str]
    aggregations: dict[str, Aggregation]
    window: Window | None
    watermark: str | None
    router: Router

    @property
    def partials(self) -> Partials:
        schema = to_arrow_schema(_nullable(self.records.schema), timezone="UTC")
        pane, begin = (self.window.pane, self.window.begin) if self.window else (None, 0)
        return Partials(schema, tuple(self.key), self.aggregations, pane, begin)

    def merged_by_spark(self, routed: DataFrame, aggs: Mapping[str, Any]) -> DataFrame:
        """Partial results, then Spark's own aggregates."""
        partials = self.partials
        combined = self._combined(routed, None)
        grouping = [F.col(f"`{name}`") for name in self.key]
        if self.window is not None:
            if self.watermark is not None and combined.isStreaming:
                combined = combined.withWatermark(TIME, self.watermark)
            # All records of a pane lie in the same windows, and so does the latest of them.
            grouping = [self.window.of(F.col(TIME)).alias("window"), *grouping]
        n_states = {
            name: len(aggregation.state_types(partials.input_types(aggregation)))
            for name, aggregation in self.aggregations.items()
        }
        return merge_natively(combined, grouping, aggs, n_states, self.records)

    def merged_in_blocks(self, routed: DataFrame, mode: str) -> DataFrame:
        """Partial results in blocks, then our own merging with state."""
        spark = routed.sparkSession
        n_partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 200)
        places = slots(_SLOTS_PER_PARTITION * n_partitions, n_partitions)
        check_slots(spark, places, n_partitions)
        packed = self._combined(routed, Packing(self.partials, places))
        return merge_blocks(packed, self.partials, self.window, self.watermark, mode)

    def merged_in_rows(self, routed: DataFrame) -> DataFrame:
        """Partial results as rows, then our own merging, at once."""
        return merge_rows(self._combined(routed, None), self.partials, self.window)

    def _combined(self, routed: DataFrame, packing: Packing | None) -> DataFrame:
        combiner = Combiner(self.partials, self.router, packing)
        schema = packing.schema if packing else self.partials.table_schema
        return routed.drop(_WORKER).mapInArrow(combiner.combine, from_arrow_schema(schema))


def _routed(
    df: DataFrame, records: DataFrame, names: list[str], router: Router, cost: Column | None
) -> DataFrame:
    hashed = [F.xxhash64(*[F.col(f"`{name}`") for name in names])]
    if cost is not None:
        hashed.append(cost)
    routed = records.withColumn(_WORKER, router_udf(router)(*hashed))
    return routed.repartitionById(router.routing.n_workers, F.col(_WORKER))


def _records(
    df: DataFrame, key: Key, aggregations: Mapping[str, Aggregation], window: Window | None
) -> DataFrame:
    """Return what leaves the source: the time, the key as Spark groups it, and the inputs."""
    columns, names = key_columns(df, key)
    kinds = [field.dataType for field in df.select(*columns).schema.fields]
    chosen = [F.col(f"`{window.time}`").alias(TIME)] if window is not None else []
    for column, name, kind in zip(columns, names, kinds, strict=True):
        chosen.append(like_spark_groups(column, kind).alias(name))
    inputs = {name: None for agg in aggregations.values() for name in agg.inputs}
    chosen += [df[f"`{name}`"] for name in inputs if name not in names]
    return df.select(*chosen)


def _aggregations(
    df: DataFrame, key: Key, aggs: Mapping[str, AnyAggregation], window: Window | None
) -> dict[str, Aggregation]:
    """Return the aggregations as the combining wants them; raise ValueError for bad ones."""
    if not isinstance(aggs, Mapping) or not aggs:
        raise ValueError(
            f"aggs must be a mapping of names to aggregations, like {{'n': count()}}, not {aggs!r}"
        )
    taken = set(key_columns(df, key)[1]) | ({"window"} if window is not None else set())
    native = all(is_native(aggregation) for aggregation in aggs.values())
    chosen: dict[str, Aggregation] = {}
    for name, aggregation in aggs.items():
        if name in taken:
            raise ValueError(f"aggs: {name!r} is the name of a key column or of the window already")
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
        schema = to_arrow_schema(
            df.select(*[f"`{column}`" for column in chosen[name].inputs]).schema, timezone="UTC"
        )
        chosen[name].state_types([field.type for field in schema])  # refuses wrong types
    return chosen


def _check_times(
    df: DataFrame, window: Window | None, watermark: str | None, mode: str | None
) -> None:
    if watermark is not None:
        if window is None:
            raise ValueError("watermark goes with window: without windows nothing ever closes")
        if microseconds(watermark) < 0:
            raise ValueError(f"watermark must be at least 0, not {watermark!r}")
    if mode not in (None, "update", "append"):
        raise ValueError(f"mode must be 'update' or 'append', not {mode!r}")
    if mode == "append" and watermark is None:
        raise ValueError("mode 'append' needs a window and a watermark: nothing ever closes")
    if window is None:
        return
    kind = df.schema[existing(df, window.time, "window")].dataType
    if not isinstance(kind, TimestampType | TimestampNTZType):
        raise ValueError(
            f"window: column {window.time!r} must be a timestamp, not {kind.simpleString()}"
        )
    if df.isStreaming and any("spark.watermarkDelayMs" in f.metadata for f in df.schema.fields):
        raise ValueError(
            "the DataFrame has a watermark already; Spark allows one, and ours stands behind the "
            "combining: leave out withWatermark and give watermark= instead"
        )


def _nullable(schema: StructType) -> StructType:
    return StructType([type(f)(f.name, f.dataType, True) for f in schema.fields])
