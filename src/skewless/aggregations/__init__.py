"""Aggregations over Arrow columns: built-in ones, the contract, and the laws for your own.

Partial results are plain Arrow columns, so they can be made anywhere and merged in any order.

>>> import pyarrow as pa
>>> from skewless import aggregations as aggs
>>> total = aggs.sum("price")
>>> groups = aggs.group([pa.array(["a", "b", "a"])])
>>> partial = total.update([pa.array([1, 2, 3])], groups.codes, groups.n_groups)
>>> total.finish(partial).to_pylist()
[4, 2]
"""

from skewless.aggregations.aggregation import Aggregation
from skewless.aggregations.aggregator import Aggregator, PerKey, Reducing, is_reducer, reducing
from skewless.aggregations.checker import LAWS, check_aggregator
from skewless.aggregations.collecting import (
    ApproxDistinct,
    Collect,
    CollectSet,
    Distinct,
    Max,
    Min,
    distinct,
)
from skewless.aggregations.grouping import Groups, distinct_pairs, group
from skewless.aggregations.sums import Count, Mean, Stddev, Sum, Variance, WeightedMean
from skewless.aggregations.types import parse_fields, parse_type
from skewless.aggregations.vector_aggregator import PerColumn, VectorAggregator
from skewless.plumbing.broken_laws import LawBroken

# The classes under the names that a query spells.
collect, collect_set, count = Collect, CollectSet, Count
max, mean, min, sum = Max, Mean, Min, Sum
stddev, variance, vwap = Stddev, Variance, WeightedMean

__all__ = ["LAWS", "Aggregation", "Aggregator", "ApproxDistinct", "Collect", "CollectSet", "Count"]
__all__ += ["Distinct", "Groups", "LawBroken", "Max", "Mean", "Min", "PerColumn", "PerKey"]
__all__ += ["Reducing", "Stddev", "Sum", "Variance", "VectorAggregator", "WeightedMean"]
__all__ += ["check_aggregator", "collect", "collect_set", "count", "distinct", "distinct_pairs"]
__all__ += ["group", "is_reducer", "max", "mean", "min", "parse_fields", "parse_type", "reducing"]
__all__ += ["stddev", "sum", "variance", "vwap"]
