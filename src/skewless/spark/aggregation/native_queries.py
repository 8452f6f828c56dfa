"""Ready aggregations as Spark's own aggregates: over records, and over partial results.

Those of a plain query define the type of a result in every form of `aggregate`. Most ready
aggregations also merge by the aggregate of a plain query, applied to their state columns; the
others have an entry here. Spark gets lists of values one value at a time. So its sets and
sketches hold them, as in a plain query, and memory is bounded in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]
from pyspark.sql.types import DataType, DecimalType

from skewless import aggregations as aggs
from skewless.spark.aggregation.arguments import Asked
from skewless.spark.aggregation.partials import TIME
from skewless.spark.aggregation.windows import WINDOW, Lateness, spelled
from skewless.spark.columns import internal, like_spark_groups, quoted

_POSITION = internal("position")
_ITEM = internal("item")
_NARROW_MEAN = 18  # digits of a mean of decimals up to which Spark's own division is exact enough


#: From an aggregation and the columns that it reads to its result.
RESULTS: dict[type[Any], Callable[..., Column]] = {
    aggs.Sum: lambda _, column: F.sum(column),
    aggs.Mean: lambda _, column: F.avg(column),
    aggs.Min: lambda _, column: F.min(column),
    aggs.Max: lambda _, column: F.max(column),
    aggs.Distinct: lambda _, column: F.count_distinct(column),
    aggs.ApproxDistinct: lambda agg, column: F.approx_count_distinct(column, agg.relative_error),
    aggs.Collect: lambda _, column: F.collect_list(column),
    aggs.CollectSet: lambda _, column: F.collect_set(column),
    aggs.Variance: lambda agg, column: (F.var_pop if agg.population else F.var_samp)(column),
    aggs.Stddev: lambda agg, column: (F.stddev_pop if agg.population else F.stddev_samp)(column),
    aggs.Count: lambda _, column=None: F.count(F.lit(1) if column is None else column),
    aggs.WeightedMean: lambda _, value, weight: _weighted_mean(value, weight),
}
#: Those that treat −0.0 as 0.0 and all NaN as equal.
_BY_EQUALITY = (aggs.Distinct, aggs.CollectSet)


def has_plain_query(aggregation: Any) -> bool:
    """Return whether Spark has an aggregate for this."""
    return type(aggregation) in RESULTS


def plain_type(aggregation: Any, asked: Asked) -> DataType | None:
    """Return the type that a plain query gives this aggregation; None if Spark has none."""
    if not has_plain_query(aggregation):
        return None
    columns = [asked.inputs[name] for name in aggregation.inputs]
    result = RESULTS[type(aggregation)](aggregation, *columns)
    return asked.records.df.groupBy().agg(result).schema[0].dataType


def plain_query(asked: Asked) -> DataFrame:
    """Return one row per group, computed by Spark; columns have internal names until the end."""
    df, window = asked.records.df, asked.window
    sent = asked.sent(asked.records.key.columns)
    if window is not None and asked.watermark is not None and df.isStreaming:
        df = df.withWatermark(window.time, spelled(asked.watermark))
        sent[0] = df[quoted(window.time)].alias(TIME)  # that of the records has no watermark
    records = df.select(*sent)
    names = {name: internal(f"input_{number}") for number, name in enumerate(asked.inputs)}
    grouping = [F.col(name) for name in asked.key]
    if window is not None:
        grouping = [window.of(F.col(TIME)).alias(WINDOW), *grouping]
    results = []
    for number, aggregation in enumerate(asked.aggs.values()):
        columns = [F.col(names[name]) for name in aggregation.inputs]
        if isinstance(aggregation, _BY_EQUALITY):
            kind = records.schema[names[aggregation.column]].dataType
            columns = [like_spark_groups(columns[0], kind)]
        if isinstance(aggregation, aggs.Distinct) and df.isStreaming:  # no count_distinct there
            result = F.size(F.collect_set(*columns)).cast("bigint")
        else:
            result = RESULTS[type(aggregation)](aggregation, *columns)
        results.append(result.alias(internal(f"result_{number}")))
    return records.groupBy(*grouping).agg(*results)


def _weighted_mean(value: Column, weight: Column) -> Column:
    v, w = value.cast("double"), weight.cast("double")
    return _ratio(None, v * w, F.when(v.isNotNull(), w))


def _ratio(_: Any, above: Column, below: Column) -> Column:
    total = F.sum(below)
    return F.when(total != 0, F.sum(above) / total)


#: Those whose results from the state columns of a group are not those of a plain query on them.
_OTHERS: dict[type[Any], Callable[..., Column]] = {
    aggs.Count: lambda _, counts: F.coalesce(F.sum(counts), F.lit(0)),
    aggs.Mean: _ratio,
    aggs.WeightedMean: _ratio,
    aggs.Distinct: lambda _, values: F.size(F.collect_set(values)),
}
#: Those whose state is a list: Spark gets its values, one a row.
_LISTS = (aggs.Distinct, aggs.ApproxDistinct, aggs.Collect, aggs.CollectSet)


def is_merged_by_spark(aggregations: Mapping[str, Any]) -> bool:
    """Return whether Spark merges the partial results of all of these; else we do."""
    kinds = {type(aggregation) for aggregation in aggregations.values()}
    return kinds <= RESULTS.keys() - {aggs.Variance, aggs.Stddev}


def merge_natively(partials: DataFrame, asked: Asked, late: Lateness) -> DataFrame:
    """Return one row per group with the results, of the types that a plain query has."""
    grouping = [F.col(name) for name in asked.key]
    if asked.window is not None:
        partials = late.applied(partials, TIME)
        # All records of a pane are in the same windows, and so is the latest of them.
        grouping = [asked.window.of(F.col(TIME)).alias(WINDOW), *grouping]
    names = {
        result: [field.name for field in fields] for result, fields in asked.partials.states.items()
    }
    partials = _one_value_a_row(partials, asked.by_result, names)
    results = []
    for name, aggregation in asked.by_result.items():
        kind = plain_type(aggregation, asked)
        assert kind is not None
        states = [F.col(state) for state in names[name]]
        if type(aggregation) in _LISTS:
            states = [F.col(_ITEM).getField(names[name][0])]
        merge = _OTHERS.get(type(aggregation), RESULTS[type(aggregation)])
        merged = merge(aggregation, *states)
        if isinstance(aggregation, aggs.Mean) and isinstance(kind, DecimalType):
            total = partials.schema[names[name][0]].dataType
            merged = _decimal_mean(aggregation, states, total, kind)
        results.append(merged.cast(kind).alias(name))
    return partials.groupBy(*grouping).agg(*results)


def _decimal_mean(mean: aggs.Mean, states: Sequence[Column], total: DataType, kind: Any) -> Column:
    """Return a mean of decimals, rounded once.

    Spark's quotient of decimals has 38 digits in all. If fewer than ten of them are beyond those of
    the result, rounding the quotient would round a second time and could give another result.
    """
    # Spark's sum of sums has a wider type than the sum, and more digits before the point.
    sums, n = F.sum(states[0]).cast(total), F.sum(states[1])
    if kind.precision <= _NARROW_MEAN:
        return F.when(n != 0, sums / n)

    def divide(sums: pa.Array, n: pa.Array) -> pa.Array:
        return mean.finish([sums, n]).cast(pa.decimal128(38, scale))

    scale = kind.scale
    divided: Column = arrow_udf(divide, DecimalType(38, scale))(sums, n)
    return divided


def _one_value_a_row(
    partials: DataFrame, aggregations: Mapping[str, Any], names: Mapping[str, list[str]]
) -> DataFrame:
    """Explode the lists side by side; all other states stay with the first row of their group."""
    lists = [names[name][0] for name, agg in aggregations.items() if type(agg) in _LISTS]
    if not lists:
        return partials
    kept = [name for name in partials.columns if name not in lists]
    exploded = partials.select(
        *[F.col(name) for name in kept],
        F.posexplode_outer(F.arrays_zip(*[F.col(name) for name in lists])).alias(_POSITION, _ITEM),
    )
    is_first = F.coalesce(F.col(_POSITION), F.lit(0)) == 0
    scalars = {state for states in names.values() for state in states}
    return exploded.select(
        *[
            F.when(is_first, F.col(name)).alias(name) if name in scalars else F.col(name)
            for name in kept
        ],
        F.col(_ITEM),
    )
