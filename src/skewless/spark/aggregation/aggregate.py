"""`aggregate`: results per key, by plain Spark, combined at the sources, or routed to workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from numpy.typing import ArrayLike
from pyspark.sql import Column, DataFrame

from skewless.spark.aggregation.arguments import AnyAggregation, asked_for
from skewless.spark.aggregation.choosing import choose
from skewless.spark.aggregation.forms import FORMS
from skewless.spark.aggregation.windows import Window
from skewless.spark.records import Key, Records
from skewless.spark.routing.arguments import routing_arguments
from skewless.strategy import AnyStrategy


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
          "local", key hash or "plan", whichever should be the fastest. Key hash also for
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
    return FORMS[choice.form](asked, choice, given, weight).results(mode).toDF(*asked.names)
