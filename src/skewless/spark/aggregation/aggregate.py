"""`aggregate`: results per key, by plain Spark, combined at the sources, or routed to workers.

All forms but plain Spark make partial results of records that are where they are combined. In a
batch, a key whose records are all in one task is finished there. The other partial results are
merged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Literal

import pyarrow as pa
from numpy.typing import ArrayLike
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skewless.aggregations import ApproxDistinct
from skewless.spark.aggregation.arguments import (
    AnyAggregation,
    Asked,
    asked_for,
    check_one_part,
    lateness,
)
from skewless.spark.aggregation.block_merging import merge_blocks, merge_rows
from skewless.spark.aggregation.choosing import LOCAL, PLAIN, Choice, choose
from skewless.spark.aggregation.combining import Combiner
from skewless.spark.aggregation.native_queries import (
    is_merged_by_spark,
    merge_natively,
    plain_query,
    plain_type,
)
from skewless.spark.aggregation.partials import N_SLOTS, Packing
from skewless.spark.aggregation.state_layout import state_layout
from skewless.spark.aggregation.whole_keys import (
    WholeKeys,
    can_tell_keys,
    without_inputs_of_marks,
)
from skewless.spark.aggregation.windows import Window
from skewless.spark.arrow_types import from_arrow_schema
from skewless.spark.columns import internal
from skewless.spark.records import Key, Records
from skewless.spark.routing.arguments import RoutingArguments, routing_arguments, weight_column
from skewless.spark.routing.planned.placing import with_worker
from skewless.spark.routing.planned.plan_keys import logged_plan
from skewless.spark.routing.query_ledger import QueryLedger, claim_of
from skewless.spark.routing.route import decided, make_router, routed
from skewless.spark.routing.speeds import log_unused, uses_speeds
from skewless.spark.slots import check_slots, even_slots
from skewless.spark.worker_python import require_skewless
from skewless.strategy import AnyStrategy

_WORKER, _COST = internal("worker"), internal("cost")


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
    max_workers: int | None = None,
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
        - "plan": the keys of a batch are counted first. A worker gets all records of a key and
          finishes it. Only keys that are too heavy for one worker are split and merged.
        - A registered name such as "cascade", or a strategy object: records are routed, combined by
          the workers, and merged. In a batch, keys that the strategy keeps whole are not merged.
        - "auto": "plain" if all aggregations are ready ones, "local" for your own aggregators. If
          records have weights: "plan", or a strategy where counting is not cheap. If a batch has
          too few partitions for all slots, or is large, your aggregators are timed on a sample:
          "local", key hash or a strategy, whichever should be the fastest. Key hash also for
          aggregators that do not merge. A restarted stream keeps the choice in its ledger. The
          choice is logged, and `explain` shows it.
    workers, capacities, weight, seed, ledger, untrusted_keys, max_workers
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
    >>> from skewless import aggregations as aggs
    >>> rows = [("A", 10.0, 1), ("A", 20.0, 3), ("B", 5.0, 2)]
    >>> trades = spark.createDataFrame(rows, "symbol string, price double, size int")
    >>> found = aggregate(trades, "symbol", {"vwap": aggs.vwap("price", "size")})
    >>> sorted(tuple(row) for row in found.collect())
    [('A', 17.5), ('B', 5.0)]
    """
    asked = asked_for(Records.of(df).by(key), aggs, window, watermark, mode)
    given = routing_arguments(df, workers, capacities, seed, ledger, untrusted_keys, max_workers)
    choice = choose(asked, strategy, given, weight)
    if choice.form != PLAIN:
        return _FORMS[choice.form](asked, choice, given, weight).results(mode).toDF(*asked.names)
    lateness(asked, is_plain=True)
    # It writes no ledger, so no ledger can have begun with it.
    claim_of(df, given.ledger, PLAIN, asked.records.key.names)
    choice.log()
    return plain_query(asked).toDF(*asked.names)


class Combined:
    """Records are combined where they are, and partial results are merged by key."""

    claim: QueryLedger | None = None
    query: QueryLedger | None = None  # finds the ledger to which the workers report
    strategy: AnyStrategy | None = None  # that may split keys
    are_whole = False  # all records of a key in a batch are in one task
    whole: WholeKeys | None = None  # finishes those keys of which that is true

    def __init__(
        self, asked: Asked, choice: Choice, given: RoutingArguments, weight: str | Column | None
    ) -> None:
        self.asked, self.choice, self.given, self.weight = asked, choice, given, weight
        self.late = lateness(asked, is_plain=False)
        self.is_native = is_merged_by_spark(asked.aggs)
        # Only Spark can finish its sketches.
        self.is_rough = any(isinstance(a, ApproxDistinct) for a in asked.aggs.values())
        self.layout: dict[str, str] = {}  # of the state, if we merge
        if asked.records.is_stream and not self.is_native:
            names, results = asked.records.key.names, list(asked.aggs)
            self.layout = state_layout(asked.partials, names, results, asked.window)
        self._prepare()

    def _prepare(self) -> None:
        """Raise ValueError if the records, or the ledger, cannot be used in this form."""

    def sent(self) -> DataFrame:
        """Return the columns that combining needs, each record where it is combined."""
        records = self.asked.records
        return records.df.select(*self.asked.sent(records.key.grouped))

    def results(self, mode: str | None) -> DataFrame:
        """Return the results; `mode` is the output mode of a stream whose results we merge."""
        asked = self.asked
        check_one_part(asked, self.strategy)
        require_skewless(asked.records.spark)
        self.choice.log()
        is_batch = not asked.records.is_stream
        # A task can finish whole keys: of a stream, the totals are elsewhere.
        finishes = self.whole is not None or (self.are_whole and is_batch and not self.is_rough)
        if self.is_native and not finishes:
            return merge_natively(self._combined(self.sent()), asked, self.late)
        return self._typed(self._in_rows() if is_batch else self._in_blocks(mode))

    def _in_blocks(self, mode: str | None) -> DataFrame:
        """Return partial results merged by us, in blocks, with state."""
        partials, window = self.asked.partials, self.asked.window
        places = even_slots(N_SLOTS)
        check_slots(self.asked.records.spark, places)
        closes = window is not None and self.late.is_given
        chosen = mode or ("append" if closes else "update")
        packed = self._combined(self.sent(), packing=Packing(partials, places))
        return merge_blocks(packed, partials, window, self.late, chosen, self.layout)

    def _in_rows(self) -> DataFrame:
        """Return the results of a batch; the states of whole keys are not shuffled again."""
        records, window = self.sent(), self.asked.window
        if self.whole is not None:
            return self.whole.merged(self._combined(records))
        finishes = self.are_whole and window is None  # windows may be made of several panes
        rows = self._combined(records, finishes=finishes)
        if finishes:
            return rows
        return merge_rows(rows, self.asked.partials, window, are_whole=self.are_whole)

    def _can_be_mixed(self) -> bool:
        """Return whether some keys may be finished, and others merged; panes are merged anyway."""
        asked = self.asked
        return asked.window is None and not self.is_rough and can_tell_keys(asked.partials)

    def _combined(
        self, records: DataFrame, *, finishes: bool = False, packing: Packing | None = None
    ) -> DataFrame:
        """Combine records, under a name that shows the choice in Spark's `explain`."""
        partials = self.asked.partials
        combiner = Combiner(partials, self.query, packing, self.claim, finishes, self.whole)
        schema = partials.result_schema if finishes else partials.table_schema
        if self.whole is not None:
            schema = self.whole.schema

        def combine(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from combiner.combine(batches)

        combine.__name__ = f"skewless {self.choice}"
        types = from_arrow_schema(packing.schema if packing else schema)
        unused = (_COST,) if self.whole is not None else (_WORKER, _COST)
        return records.drop(*unused).mapInArrow(combine, types)

    def _typed(self, merged: DataFrame) -> DataFrame:
        """Return our results with the types of a plain query: means of wide decimals differ."""
        for name, aggregation in self.asked.by_result.items():
            kind = plain_type(aggregation, self.asked)
            ours = merged.schema[name].dataType
            if kind is not None and kind.simpleString() != ours.simpleString():
                merged = merged.withColumn(name, F.col(name).cast(kind))
        return merged


class Local(Combined):
    """Each source combines its own records."""

    def _prepare(self) -> None:
        records, ledger = self.asked.records, self.given.ledger
        self.claim = claim_of(records.df, ledger, LOCAL, records.key.names, self.layout)


class Together(Combined):
    """All records of a key come together by Spark's hash of the key."""

    are_whole = True

    def sent(self) -> DataFrame:
        """Return the records by key."""
        return super().sent().repartition(self.given.workers, *self.asked.key)


class Planned(Combined):
    """The keys of a batch are counted and planned; only those that the plan splits are merged."""

    def _prepare(self) -> None:
        partials = self.asked.partials
        if self.asked.records.is_stream:
            raise ValueError(
                "strategy 'plan': df is a stream, which cannot be counted beforehand: leave out "
                "strategy, or name one of the registry"
            )
        self.are_whole = not partials.merges
        if partials.merges and self._can_be_mixed():
            self.whole = WholeKeys(partials, self.given.workers, self.choice.form)

    def sent(self) -> DataFrame:
        """Count the keys, and return the records in the partitions of their workers."""
        asked, n_workers = self.asked, self.given.workers
        plan = logged_plan(asked.records, self.given, self.weight, whole_keys=self.are_whole)
        chosen = Records.of(asked.records.df.select(*asked.sent(asked.records.key.grouped)))
        key = replace(asked.records.key, columns=tuple(F.col(name) for name in asked.key))
        if not plan.split:
            self.are_whole, self.whole = True, None
        # Numbers as in `marks`: a record of a split key has no home.
        added = 0 if self.whole is None else n_workers
        numbered = with_worker(replace(chosen, key=key), plan, _WORKER, added)
        return numbered.repartitionById(n_workers, F.col(_WORKER))


class Routed(Combined):
    """A strategy routes records to workers, which combine them."""

    def _prepare(self) -> None:
        records, given = self.asked.records, self.given
        chosen = self.choice.strategy
        self.router = make_router(records.df, records.key, chosen, given, self.layout, stacklevel=5)
        self.query, self.strategy = self.router.query, self.router.plans.strategy
        self.are_whole = self.strategy.traits.family == "moving"
        if self._tells_homes():
            self.router = replace(self.router, tells_homes=True)
            self.whole = WholeKeys(self.asked.partials, given.workers, self.strategy.name)
        is_learning = self.query.ledger is not None and uses_speeds(self.strategy)
        if is_learning and not given.measures_speeds:
            log_unused(self.strategy.name)
        self.cost: list[Column] = []
        if self.weight is not None:
            self.cost = [weight_column(records, self.weight, self.strategy).alias(_COST)]

    def _tells_homes(self) -> bool:
        """Return whether workers learn which keys are split, and finish the others.

        Only in a batch: the totals of a stream are elsewhere. Spark's own merge has small states.
        """
        is_ours = not self.asked.records.is_stream and not self.is_native
        has_homes = not self.are_whole and hasattr(self.strategy, "homes")
        return is_ours and has_homes and self._can_be_mixed()

    def sent(self) -> DataFrame:
        """Return the records with their workers, in the partitions of these."""
        records, asked = self.asked.records, self.asked
        chosen = records.df.select(*asked.sent(records.key.grouped), *self.cost)
        key = replace(records.key, columns=tuple(F.col(name) for name in asked.key))
        cost = F.col(_COST) if self.cost else None
        if self.whole is None:
            return routed(chosen, self.router, key, cost, _WORKER)
        numbered = decided(chosen, self.router, key, cost, _WORKER).drop(_COST)
        copies = without_inputs_of_marks(numbered, asked.key, _WORKER)
        return copies.repartitionById(self.given.workers, F.col(_WORKER))


_FORMS: dict[str, type[Combined]] = {
    "local": Local,
    "together": Together,
    "plan": Planned,
    "route": Routed,
}
