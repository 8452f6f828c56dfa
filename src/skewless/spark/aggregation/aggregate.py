"""`aggregate`: results per key, by plain Spark, combined at the sources, or routed to workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import pyarrow as pa
from numpy.typing import ArrayLike
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from skewless.aggregations import Aggregation
from skewless.spark.aggregation.arguments import (
    AnyAggregation,
    carried_watermark,
    check_one_part,
    check_times,
    chosen_aggregations,
    is_merged_by_spark,
    with_reducers,
)
from skewless.spark.aggregation.block_merging import merge_blocks, merge_rows
from skewless.spark.aggregation.blocks import FORMAT, N_SLOTS, Packing
from skewless.spark.aggregation.choosing import LOCAL, PLAIN, Choice, choose
from skewless.spark.aggregation.combining import Combiner
from skewless.spark.aggregation.native_merging import merge_natively
from skewless.spark.aggregation.partials import TIME, Partials
from skewless.spark.aggregation.plain_queries import plain_query, plain_type
from skewless.spark.aggregation.state_layout import state_layout
from skewless.spark.aggregation.windows import WINDOW, Lateness, Window, as_window
from skewless.spark.arrow_types import from_arrow_schema
from skewless.spark.columns import (
    GroupingKey,
    Key,
    arrow_schema,
    grouping_key,
    internal,
    quoted,
    require_arrow_key,
    require_dataframe,
)
from skewless.spark.routing.arguments import routing_arguments, weight_column
from skewless.spark.routing.query_ledger import QueryLedger, claim_of
from skewless.spark.routing.route import make_router, routed
from skewless.spark.routing.speeds import log_unused, uses_speeds
from skewless.spark.slots import ANY_PARTITIONS, check_slots, even_slots
from skewless.spark.worker_python import require_skewless
from skewless.strategy import AnyStrategy

_WORKER = internal("worker")
_COST = internal("cost")

Batches: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def aggregate(
    df: DataFrame,
    key: Key,
    aggs: Mapping[str, AnyAggregation],
    *,
    window: Window | tuple[str, ...] | None = None,
    watermark: str | None = None,
    strategy: str | AnyStrategy = "auto",
    workers: int | None = None,
    capacities: ArrayLike | None = None,
    weight: str | Column | None = None,
    seed: int | None = None,
    ledger: str | None = None,
    untrusted_keys: bool | None = None,
    mode: Literal["update", "append"] | None = None,
) -> DataFrame:
    """Return one row per key, or per window and key, with the results of `aggs`.

    The results are those of `groupBy`, with any strategy. The strategy decides how they are
    computed: by plain Spark, from partial results of the sources, or from partial results of the
    workers to which records are routed. Partial results are merged by key. Works on batch and
    streaming DataFrames.

    Parameters
    ----------
    df
        The records.
    key
        The name of a column, a Column, or several of them. Text that names no column is read as a
        nested field or an SQL expression. The same holds for the inputs of `aggs`.
    aggs
        What to compute, by the name of the result: ready aggregations of `skewless.aggregations`,
        your own `Aggregator` or `VectorAggregator`, or an object with zero, reduce, merge and
        finish (see `skewless.aggregations.reducing`).
    window
        Windows of event time: a `Window`, or (time column, size[, slide[, offset]]).
    watermark
        How late a record of a stream may be, e.g. "10 minutes". It replaces `withWatermark`; Spark
        allows only one of them. A stream that already has a watermark on the column of `window`
        keeps it.
    strategy
        - "plain": Spark's own `groupBy().agg`, for ready aggregations.
        - "local": each source combines its own records, and only partial results are shuffled.
        - A registered name such as "cascade", or a strategy object: records are routed, combined by
          the workers, and merged.
        - "auto": "plain" if all aggregations are ready ones, "local" for your own aggregators. A
          strategy if records have weights. If a batch has too few partitions or too many keys for
          "local": a strategy, or key hash if no key is hot. Key hash also for aggregators that do
          not merge. A restarted stream keeps the choice in its ledger. The choice is logged, and
          `explain` shows it.
    workers, capacities, weight, seed, ledger, untrusted_keys
        As for `route`. "plain" and "local" route nothing, so they refuse `capacities` and `weight`.
        With "auto", `weight` chooses a strategy that routes, and `capacities` have an effect only
        if one is chosen. The others have no effect if nothing is routed.
    mode
        The output mode of the stream. It only matters for your own aggregators, and for variances
        unless the strategy is "plain"; then it must equal what you give to
        `writeStream.outputMode`, and "complete" is not possible. None: "append" with a watermark,
        else "update". Everything else works in any output mode.

    Examples
    --------
    >>> aggregate(  # doctest: +SKIP
    ...     trades, "symbol", {"vwap": aggs.vwap("price", "size")}, window=("ts", "1 minute")
    ... )
    """
    require_dataframe(df)
    by = grouping_key(df, key)
    span = as_window(window)
    aggs = with_reducers(aggs)
    chosen, inputs = chosen_aggregations(df, by, aggs, span)
    check_times(df, span, watermark, mode)
    require_arrow_key(by)
    given = routing_arguments(
        df,
        workers=workers,
        capacities=capacities,
        seed=seed,
        ledger=ledger,
        untrusted_keys=untrusted_keys,
    )
    choice = choose(df, by, aggs, strategy, given, weight)
    is_plain = choice.form == "plain"
    carried = carried_watermark(df, by, span, watermark, is_plain=is_plain)
    names = [*([WINDOW] if span is not None else []), *by.names, *aggs]
    if is_plain:
        claim_of(df, given.ledger, PLAIN, by.names)  # it writes none, so none began with it
        choice.log()
        return plain_query(df, by, inputs, aggs, span, watermark).toDF(*names)
    is_ours = not is_merged_by_spark(aggs)
    layout = _layout(df, by, chosen, inputs, span) if is_ours and df.isStreaming else {}
    unmergeable = [name for name, agg in aggs.items() if not agg.merges]
    router, claim, cost = None, None, None
    if choice.form == "route":
        router = make_router(df, by, choice.strategy, given, layout)
        is_learning = router.query.ledger is not None and uses_speeds(router.plans.strategy)
        if is_learning and not given.measures_speeds:
            log_unused(router.plans.strategy.name)
        cost = None if weight is None else weight_column(df, weight, router.plans.strategy)
    elif choice.form == "local":
        claim = claim_of(df, given.ledger, LOCAL, by.names, layout)
    if unmergeable:
        splitter = None if router is None else router.plans.strategy
        check_one_part(df, unmergeable[0], span, splitter)
    require_skewless(df.sparkSession)
    choice.log()
    records = _records(df, by, inputs, span, cost)
    partials = _partials(records.schema, by, chosen, inputs, span)
    query = _Query(
        df=df,
        partials=partials,
        aggs=dict(zip(partials.aggregations, aggs.values(), strict=True)),
        inputs=inputs,
        window=span,
        late=Lateness(watermark, carried),
        choice=choice,
        ledger=None if router is None else router.query,
        claim=claim,
    )
    if router is not None:
        sent_key = replace(by, columns=tuple(F.col(name) for name in partials.key))
        weights = None if cost is None else F.col(_COST)
        records = routed(records, router, sent_key, weights, _WORKER)
    elif choice.form == "together":
        records = records.repartition(given.workers, *partials.key)
    return query.merged(records, mode, layout).toDF(*names)


@dataclass(frozen=True)
class _Query:
    """The pieces of one aggregation, and the ways to put them together.

    All columns have internal names until the end. So the user's names are not restricted: they may
    differ only in case, have dots, or be the same for a key and for the column that it is computed
    from.
    """

    df: DataFrame
    partials: Partials
    aggs: dict[str, AnyAggregation]  # as the user gave them
    inputs: dict[str, Column]
    window: Window | None
    late: Lateness
    choice: Choice
    ledger: QueryLedger | None  # to which the workers report
    claim: QueryLedger | None

    def merged(self, records: DataFrame, mode: str | None, layout: Mapping[str, str]) -> DataFrame:
        """Return the results of records that are where they are combined."""
        if is_merged_by_spark(self.aggs):
            return self.merged_by_spark(records)
        if self.df.isStreaming:
            closes = self.window is not None and self.late.is_given
            return self.merged_in_blocks(
                records, mode or ("append" if closes else "update"), layout
            )
        if self.choice.form == "together" and self.window is None:
            return self.finished(records)
        return self.merged_in_rows(records)

    def merged_by_spark(self, records: DataFrame) -> DataFrame:
        """Return partial results merged by Spark's aggregates."""
        partials = self.partials
        combined = self._combined(records, None)
        grouping = [F.col(name) for name in partials.key]
        if self.window is not None:
            combined = self.late.applied(combined, TIME)
            # All records of a pane are in the same windows, and so is the latest of them.
            grouping = [self.window.of(F.col(TIME)).alias(WINDOW), *grouping]
        n_states = {
            name: len(aggregation.state_types(partials.input_types(aggregation)))
            for name, aggregation in partials.aggregations.items()
        }
        kinds = {name: plain_type(agg, self.df, self.inputs) for name, agg in self.aggs.items()}
        return merge_natively(combined, grouping, self.aggs, n_states, kinds)

    def merged_in_blocks(
        self, records: DataFrame, mode: str, layout: Mapping[str, str]
    ) -> DataFrame:
        """Return partial results merged by us, in blocks, with state."""
        places = even_slots(N_SLOTS)
        check_slots(records.sparkSession, places, ANY_PARTITIONS)
        packed = self._combined(records, Packing(self.partials, places))
        merged = merge_blocks(packed, self.partials, self.window, self.late, mode, layout)
        return self._typed(merged)

    def merged_in_rows(self, records: DataFrame) -> DataFrame:
        """Return partial results merged by us, as rows, without state."""
        combined = self._combined(records, None)
        return self._typed(merge_rows(combined, self.partials, self.window))

    def finished(self, records: DataFrame) -> DataFrame:
        """Return the results without merging: all records of a key are in one partition."""
        finish = self._named(Combiner(self.partials).finish)
        schema = from_arrow_schema(self.partials.result_schema)
        return self._typed(records.mapInArrow(finish, schema))

    def _combined(self, records: DataFrame, packing: Packing | None) -> DataFrame:
        combiner = Combiner(self.partials, self.ledger, packing, self.claim)
        schema = packing.schema if packing else self.partials.table_schema
        records = records.drop(_WORKER, _COST)
        return records.mapInArrow(self._named(combiner.combine), from_arrow_schema(schema))

    def _named(self, function: Batches) -> Batches:
        """Return the function under a name that shows the choice in Spark's `explain`."""

        def combine(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from function(batches)

        combine.__name__ = f"skewless {self.choice}"
        return combine

    def _typed(self, merged: DataFrame) -> DataFrame:
        """Return our results with the types of a plain query: means of wide decimals differ."""
        for name, aggregation in self.aggs.items():
            kind = plain_type(aggregation, self.df, self.inputs)
            ours = merged.schema[name].dataType
            if kind is not None and kind.simpleString() != ours.simpleString():
                merged = merged.withColumn(name, F.col(name).cast(kind))
        return merged


def _records(
    df: DataFrame,
    key: GroupingKey,
    inputs: Mapping[str, Column],
    window: Window | None,
    cost: Column | None,
) -> DataFrame:
    """Return the columns that are sent: the time, the key as Spark groups it, inputs, the cost."""
    chosen = [df[quoted(window.time)].alias(TIME)] if window is not None else []
    for number, column in enumerate(key.grouped):
        chosen.append(column.alias(internal(f"key_{number}")))
    for number, column in enumerate(inputs.values()):
        chosen.append(column.alias(internal(f"input_{number}")))
    if cost is not None:
        chosen.append(cost.alias(_COST))
    return df.select(*chosen)


def _partials(
    schema: StructType,
    key: GroupingKey,
    aggregations: Mapping[str, Aggregation],
    inputs: Mapping[str, Column],
    window: Window | None,
) -> Partials:
    """Return how records become partial results; aggregations find inputs by the user's names."""
    fields = [field for field in schema.fields if field.name != _COST]
    ours = [field.name for field in fields[: len(fields) - len(inputs)]]
    kinds = arrow_schema(StructType(fields), "aggs").types
    described = pa.schema(list(zip([*ours, *inputs], kinds, strict=True)))
    numbered = {
        internal(f"result_{number}"): aggregation
        for number, aggregation in enumerate(aggregations.values())
    }
    pane, begin = (window.pane, window.begin) if window else (None, 0)
    return Partials(described, tuple(ours[-len(key.names) :]), numbered, pane, begin)


def _layout(
    df: DataFrame,
    key: GroupingKey,
    aggregations: Mapping[str, Aggregation],
    inputs: Mapping[str, Column],
    window: Window | None,
) -> dict[str, str]:
    """Return the layout of the state of our own merging, by the name of each part."""
    records = _records(df, key, inputs, window, None)
    partials = _partials(records.schema, key, aggregations, inputs, window)
    return state_layout(FORMAT, partials, list(key.names), list(aggregations), window)
