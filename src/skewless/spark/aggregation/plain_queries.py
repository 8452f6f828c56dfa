"""Ready aggregations as expressions of a plain Spark query.

They define the type of a result in every form of `aggregate`, and they are the query of the form
"plain".
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from skewless import aggregations as aggs
from skewless.spark.aggregation.arguments import Asked
from skewless.spark.aggregation.partials import TIME
from skewless.spark.aggregation.windows import WINDOW, spelled
from skewless.spark.columns import internal, like_spark_groups, quoted

#: Spark 4.1 has no bounded list of the largest values.
_HAS_TOP_K = "k" in inspect.signature(F.max_by).parameters


def _largest(column: Column, k: int) -> Column:
    """Return the k largest values of a group that are not null, largest first; null if none.

    On Spark 4.1 a group holds all its values until they are sorted.
    """
    if _HAS_TOP_K:
        return F.max_by(column, column, k)
    values = F.sort_array(F.collect_list(column), asc=False)
    return F.when(F.count(column) > 0, F.slice(values, 1, k))


#: From an aggregation and the columns that it reads to its result.
RESULTS: dict[type[Any], Callable[..., Column]] = {
    aggs.Sum: lambda _, column: F.sum(column),
    aggs.Mean: lambda _, column: F.avg(column),
    aggs.Min: lambda _, column: F.min(column),
    aggs.Max: lambda _, column: F.max(column),
    aggs.Distinct: lambda _, column: F.count_distinct(column),
    aggs.ApproxDistinct: lambda agg, column: F.approx_count_distinct(column, agg.relative_error),
    aggs.TopK: lambda agg, column: _largest(column, agg.k),
    aggs.Collect: lambda _, column: F.collect_list(column),
    aggs.CollectSet: lambda _, column: F.collect_set(column),
    aggs.Variance: lambda agg, column: (F.var_pop if agg.population else F.var_samp)(column),
    aggs.Stddev: lambda agg, column: (F.stddev_pop if agg.population else F.stddev_samp)(column),
    aggs.Count: lambda _, column=None: F.count(F.lit(1) if column is None else column),
    aggs.WeightedMean: lambda _, value, weight: _weighted_mean(value, weight),
}
#: Those that treat −0.0 as 0.0 and all NaN as equal.
_BY_EQUALITY = (aggs.Distinct, aggs.CollectSet, aggs.TopK)


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
        columns = [_column(aggregation, records, names[name]) for name in aggregation.inputs]
        if isinstance(aggregation, aggs.Distinct) and df.isStreaming:  # no count_distinct there
            result = F.size(F.collect_set(*columns)).cast("bigint")
        else:
            result = RESULTS[type(aggregation)](aggregation, *columns)
        results.append(result.alias(internal(f"result_{number}")))
    return records.groupBy(*grouping).agg(*results)


def _column(aggregation: Any, records: DataFrame, name: str) -> Column:
    column = F.col(name)
    if isinstance(aggregation, _BY_EQUALITY):
        return like_spark_groups(column, records.schema[name].dataType)
    return column


def _weighted_mean(value: Column, weight: Column) -> Column:
    v, w = value.cast("double"), weight.cast("double")
    above, below = F.sum(v * w), F.sum(F.when(v.isNotNull(), w))
    return F.when(below != 0, above / below)
