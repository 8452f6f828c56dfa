"""The forms of `aggregate`: by plain Spark, or combined at sources, by hash, or by routed workers.

All but the first make partial results of records that are where they are combined, and merge them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skewless.spark.aggregation.arguments import check_one_part, is_merged_by_spark, lateness
from skewless.spark.aggregation.asked import Asked
from skewless.spark.aggregation.block_merging import merge_blocks, merge_rows
from skewless.spark.aggregation.blocks import FORMAT, N_SLOTS, Packing
from skewless.spark.aggregation.choosing import LOCAL, PLAIN, Choice
from skewless.spark.aggregation.combining import Combiner
from skewless.spark.aggregation.native_merging import merge_natively
from skewless.spark.aggregation.partials import TIME
from skewless.spark.aggregation.plain_queries import plain_query, plain_type
from skewless.spark.aggregation.state_layout import state_layout
from skewless.spark.aggregation.windows import WINDOW
from skewless.spark.arrow_types import from_arrow_schema
from skewless.spark.columns import internal
from skewless.spark.ledger.query_identity import Claim, claim_of, require_unclaimed
from skewless.spark.routing.arguments import RoutingArguments, weight_column
from skewless.spark.routing.query_ledger import QueryLedger
from skewless.spark.routing.route import make_router, routed
from skewless.spark.routing.speeds import log_unused, uses_speeds
from skewless.spark.slots import check_slots, even_slots
from skewless.spark.worker_python import require_skewless
from skewless.strategy import AnyStrategy

_WORKER, _COST = internal("worker"), internal("cost")

Batches: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Plain:
    """Spark's own `groupBy().agg`."""

    def __init__(
        self, asked: Asked, choice: Choice, given: RoutingArguments, weight: str | Column | None
    ) -> None:
        """Raise ValueError if the records, or the ledger, cannot be used in this form."""
        self.late = lateness(asked, is_plain=True)
        self.asked, self.choice = asked, choice
        require_unclaimed(asked.records.df, given.ledger, PLAIN, asked.records.key.names)

    def results(self, mode: str | None) -> DataFrame:
        """Return the results; `mode` is the output mode of a stream whose results we merge."""
        self.choice.log()
        return plain_query(self.asked)


class Combined:
    """Records are combined where they are, and partial results are merged by key."""

    claim: Claim | None = None
    query: QueryLedger | None = None  # finds the ledger to which the workers report
    strategy: AnyStrategy | None = None  # that may split keys

    def __init__(
        self, asked: Asked, choice: Choice, given: RoutingArguments, weight: str | Column | None
    ) -> None:
        """Raise ValueError if the records, or the ledger, cannot be used in this form."""
        self.late = lateness(asked, is_plain=False)
        self.asked, self.choice, self.given = asked, choice, given
        self.layout: dict[str, str] = {}  # of the state, if we merge
        if asked.records.is_stream and not is_merged_by_spark(asked.aggs):
            names = list(asked.records.key.names)
            self.layout = state_layout(
                FORMAT, asked.partials, names, list(asked.aggs), asked.window
            )

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
        if is_merged_by_spark(asked.aggs):
            return self._merged_by_spark()
        return self._typed(self._in_blocks(mode) if asked.records.is_stream else self._in_rows())

    def _merged_by_spark(self) -> DataFrame:
        """Return partial results merged by Spark's aggregates."""
        asked, combined = self.asked, self._combined(None)
        grouping = [F.col(name) for name in asked.key]
        if asked.window is not None:
            combined = self.late.applied(combined, TIME)
            # All records of a pane are in the same windows, and so is the latest of them.
            grouping = [asked.window.of(F.col(TIME)).alias(WINDOW), *grouping]
        kinds = {name: plain_type(agg, asked) for name, agg in asked.by_result.items()}
        n_states = {name: len(names) for name, names in asked.partials.states.items()}
        return merge_natively(combined, grouping, asked.by_result, n_states, kinds)

    def _in_blocks(self, mode: str | None) -> DataFrame:
        """Return partial results merged by us, in blocks, with state."""
        partials, window = self.asked.partials, self.asked.window
        places = even_slots(N_SLOTS)
        check_slots(self.asked.records.spark, places)
        closes = window is not None and self.late.is_given
        chosen = mode or ("append" if closes else "update")
        packed = self._combined(Packing(partials, places))
        return merge_blocks(packed, partials, window, self.late, chosen, self.layout)

    def _in_rows(self) -> DataFrame:
        """Return partial results merged by us, as rows, without state."""
        return merge_rows(self._combined(None), self.asked.partials, self.asked.window)

    def _combined(self, packing: Packing | None) -> DataFrame:
        combiner = Combiner(self.asked.partials, self.query, packing, self.claim)
        schema = packing.schema if packing else self.asked.partials.table_schema
        return self._mapped(self.sent().drop(_WORKER, _COST), combiner.combine, schema)

    def _mapped(self, records: DataFrame, function: Batches, schema: pa.Schema) -> DataFrame:
        """Run a function under a name that shows the choice in Spark's `explain`."""

        def combine(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from function(batches)

        combine.__name__ = f"skewless {self.choice}"
        return records.mapInArrow(combine, from_arrow_schema(schema))

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

    def __init__(self, asked: Asked, choice: Choice, given: RoutingArguments, weight: Any) -> None:
        """Raise LedgerMismatch if the ledger is that of another query."""
        super().__init__(asked, choice, given, weight)
        records = asked.records
        self.claim = claim_of(records.df, given.ledger, LOCAL, records.key.names, self.layout)


class Together(Combined):
    """All records of a key come together by Spark's hash of the key."""

    def sent(self) -> DataFrame:
        """Return the records by key."""
        return super().sent().repartition(self.given.workers, *self.asked.key)

    def _in_rows(self) -> DataFrame:
        """Finish without merging, unless windows are made of several panes."""
        if self.asked.window is not None:
            return super()._in_rows()
        partials = self.asked.partials
        return self._mapped(self.sent(), Combiner(partials).finish, partials.result_schema)


class Routed(Combined):
    """A strategy routes records to workers, which combine them."""

    def __init__(self, asked: Asked, choice: Choice, given: RoutingArguments, weight: Any) -> None:
        """Raise ValueError if the strategy cannot use the arguments."""
        super().__init__(asked, choice, given, weight)
        df, key = asked.records.df, asked.records.key
        self.router = make_router(df, key, choice.strategy, given, self.layout, stacklevel=4)
        self.query, self.strategy = self.router.query, self.router.plans.strategy
        is_learning = self.query.ledger is not None and uses_speeds(self.strategy)
        if is_learning and not given.measures_speeds:
            log_unused(self.strategy.name)
        self.cost: list[Column] = []
        if weight is not None:
            self.cost = [weight_column(asked.records, weight, self.strategy).alias(_COST)]

    def sent(self) -> DataFrame:
        """Return the records with their workers, in the partitions of these."""
        records, asked = self.asked.records, self.asked
        chosen = records.df.select(*asked.sent(records.key.grouped), *self.cost)
        key = replace(records.key, columns=tuple(F.col(name) for name in asked.key))
        return routed(chosen, self.router, key, F.col(_COST) if self.cost else None, _WORKER)


FORMS: dict[str, type[Plain | Combined]] = {
    "plain": Plain,
    "local": Local,
    "together": Together,
    "route": Routed,
}
