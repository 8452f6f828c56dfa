"""`aggregate`: results per key, with the records of hot keys spread over all workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from skewless.aggregations import (
    Aggregation,
    Aggregator,
    TopK,
)
from skewless.spark.aggregation.arguments import (
    AnyAggregation,
    check_one_part,
    check_times,
    chosen_aggregations,
    is_auto,
)
from skewless.spark.aggregation.block_merging import merge_blocks, merge_rows
from skewless.spark.aggregation.blocks import FORMAT, N_SLOTS, Packing
from skewless.spark.aggregation.combining import Combiner
from skewless.spark.aggregation.native_merging import is_native, merge_natively, plain_type
from skewless.spark.aggregation.partials import TIME, Partials
from skewless.spark.aggregation.state_layout import state_layout
from skewless.spark.aggregation.windows import WINDOW, Window, as_window, spelled
from skewless.spark.columns import (
    GroupingKey,
    Key,
    arrow_schema,
    grouping_key,
    internal,
    quoted,
    require_dataframe,
)
from skewless.spark.routing.key_hashes import hashed_key
from skewless.spark.routing.route import make_router, routed, weight_column
from skewless.spark.routing.router import Router
from skewless.spark.slots import ANY_PARTITIONS, check_slots, even_slots
from skewless.spark.worker_python import require_skewless
from skewless.strategy import AnyStrategy

_WORKER = internal("worker")
_COST = internal("cost")


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
    untrusted_keys: bool | None = None,
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
        A name of the registry or a strategy; "auto" is `cascade-ahead`, our own, or `hash` where an
        aggregator says that it cannot be merged.
    workers, weight, seed, ledger, untrusted_keys
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
    require_dataframe(df)
    by = grouping_key(df, key)
    span = as_window(window)
    chosen = chosen_aggregations(df, by, aggs, span)
    unmergeable = [n for n, a in aggs.items() if isinstance(a, Aggregator) and not a.merges]
    check_times(df, by, span, watermark, mode)
    is_ours = not all(is_native(aggregation) for aggregation in aggs.values())
    layout = _layout(df, by, chosen, span) if is_ours and df.isStreaming else {}
    router = make_router(
        df,
        by,
        strategy=("hash" if unmergeable else "cascade-ahead") if is_auto(strategy) else strategy,
        workers=workers,
        seed=seed,
        ledger=ledger,
        untrusted_keys=untrusted_keys,
        state=layout,
    )
    if unmergeable:
        check_one_part(df, unmergeable[0], span, router.routing.strategy)
    cost = None if weight is None else weight_column(df, weight, router.routing.strategy)
    require_skewless(df.sparkSession)
    records = _records(df, by, chosen, span, cost)
    partials = _partials(records.schema, by, chosen, span)
    query = _Query(df, partials, dict(zip(partials.aggregations, aggs.values(), strict=True)), span)
    sent = _sent(records, partials.key, router)
    if not is_ours:
        merged = query.merged_by_spark(sent, router, watermark)
    elif df.isStreaming:
        closes = span is not None and watermark is not None
        chosen_mode = mode or ("append" if closes else "update")
        merged = query.merged_in_blocks(sent, router, watermark, chosen_mode, layout)
    else:
        merged = query.merged_in_rows(sent, router)
    names = [*([WINDOW] if span is not None else []), *by.names, *aggs]
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

    def merged_by_spark(self, sent: DataFrame, router: Router, watermark: str | None) -> DataFrame:
        """Partial results, then Spark's own aggregates."""
        partials = self.partials
        combined = self._combined(sent, router, None)
        grouping = [F.col(name) for name in partials.key]
        if self.window is not None:
            if watermark is not None and combined.isStreaming:
                combined = combined.withWatermark(TIME, spelled(watermark))
            # All records of a pane lie in the same windows, and so does the latest of them.
            grouping = [self.window.of(F.col(TIME)).alias(WINDOW), *grouping]
        n_states = {
            name: len(aggregation.state_types(partials.input_types(aggregation)))
            for name, aggregation in partials.aggregations.items()
        }
        return merge_natively(combined, grouping, self.aggs, n_states, self.df)

    def merged_in_blocks(
        self,
        sent: DataFrame,
        router: Router,
        watermark: str | None,
        mode: str,
        layout: Mapping[str, str],
    ) -> DataFrame:
        """Partial results in blocks, then our own merging with state."""
        places = even_slots(N_SLOTS)
        check_slots(sent.sparkSession, places, ANY_PARTITIONS)
        packed = self._combined(sent, router, Packing(self.partials, places))
        merged = merge_blocks(packed, self.partials, self.window, watermark, mode, layout)
        return self._typed(merged)

    def merged_in_rows(self, sent: DataFrame, router: Router) -> DataFrame:
        """Partial results as rows, then our own merging, at once."""
        combined = self._combined(sent, router, None)
        return self._typed(merge_rows(combined, self.partials, self.window))

    def _combined(self, sent: DataFrame, router: Router, packing: Packing | None) -> DataFrame:
        combiner = Combiner(self.partials, router, packing)
        schema = packing.schema if packing else self.partials.table_schema
        records = sent.drop(_WORKER, _COST)
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


def _sent(records: DataFrame, names: Sequence[str], router: Router) -> DataFrame:
    columns = [F.col(name) for name in names]
    hashed = hashed_key(records, columns, untrusted=router.untrusted_keys)
    if _COST in records.columns:
        hashed.append(F.col(_COST))
    return routed(records, router, hashed, _WORKER)


def _records(
    df: DataFrame,
    key: GroupingKey,
    aggregations: Mapping[str, Aggregation],
    window: Window | None,
    cost: Column | None,
) -> DataFrame:
    """Return what leaves the source: the time, the key as Spark groups it, inputs, and the cost."""
    chosen = [df[quoted(window.time)].alias(TIME)] if window is not None else []
    for number, column in enumerate(key.grouped):
        chosen.append(column.alias(internal(f"key_{number}")))
    for number, name in enumerate(_inputs(aggregations)):
        chosen.append(df[quoted(name)].alias(internal(f"input_{number}")))
    if cost is not None:
        chosen.append(cost.alias(_COST))
    return df.select(*chosen)


def _partials(
    schema: StructType,
    key: GroupingKey,
    aggregations: Mapping[str, Aggregation],
    window: Window | None,
) -> Partials:
    """Return how records become partial results; aggregations find inputs by the user's names."""
    fields = [field for field in schema.fields if field.name != _COST]
    inputs = _inputs(aggregations)
    ours = [field.name for field in fields[: len(fields) - len(inputs)]]
    arrow_schema(StructType([*key.fields]), "key")  # refuses types by the user's names
    kinds = arrow_schema(StructType(fields), "aggs").types
    described = pa.schema(list(zip([*ours, *inputs], kinds, strict=True)))
    numbered = {
        internal(f"result_{number}"): aggregation
        for number, aggregation in enumerate(aggregations.values())
    }
    pane, begin = (window.pane, window.begin) if window else (None, 0)
    return Partials(described, tuple(ours[-len(key.names) :]), numbered, pane, begin)


def _layout(
    df: DataFrame, key: GroupingKey, aggregations: Mapping[str, Aggregation], window: Window | None
) -> dict[str, str]:
    """Return what the state of our own merging is made of."""
    records = _records(df, key, aggregations, window, None)
    partials = _partials(records.schema, key, aggregations, window)
    return state_layout(FORMAT, partials, list(key.names), list(aggregations), window)


def _inputs(aggregations: Mapping[str, Aggregation]) -> list[str]:
    return list(dict.fromkeys(name for agg in aggregations.values() for name in agg.inputs))
