"""Short names for the built-in aggregations, as a query spells them."""

from __future__ import annotations

from typing import Literal, overload

from skewless.aggregations.collecting import ApproxDistinct, Collect, CollectSet, Distinct
from skewless.aggregations.extremes import Max, Min, TopK
from skewless.aggregations.spread import Stddev, Variance
from skewless.aggregations.sums import Count, Mean, Sum, WeightedMean
from skewless.plumbing.arguments import shown


def count(column: str | None = None) -> Count:
    """Return the number of records, or of those that are not null in `column`."""
    return Count(column)


def sum(column: str) -> Sum:
    """Return the sum of a column."""
    return Sum(column)


def mean(column: str) -> Mean:
    """Return the mean of a column."""
    return Mean(column)


def min(column: str) -> Min:
    """Return the smallest value of a column."""
    return Min(column)


def max(column: str) -> Max:
    """Return the largest value of a column."""
    return Max(column)


def variance(column: str, *, population: bool = False) -> Variance:
    """Return the variance of a column, of a sample unless it is the whole population."""
    return Variance(column, population)


def stddev(column: str, *, population: bool = False) -> Stddev:
    """Return the standard deviation of a column, of a sample unless it is the whole population."""
    return Stddev(column, population)


def vwap(value: str, weight: str) -> WeightedMean:
    """Return the mean of `value` weighted by `weight`."""
    return WeightedMean(value, weight)


@overload
def distinct(column: str, exact: Literal[True] = True) -> Distinct: ...
@overload
def distinct(column: str, exact: Literal[False]) -> ApproxDistinct: ...
def distinct(column: str, exact: bool = True) -> Distinct | ApproxDistinct:
    """Return the number of distinct values of a column, exact or by the engine's sketch."""
    if not isinstance(exact, bool):
        raise ValueError(f"distinct: exact must be True or False, not {shown(exact)}")
    return Distinct(column) if exact else ApproxDistinct(column)


def top_k(column: str, k: int) -> TopK:
    """Return the `k` largest values of a column."""
    return TopK(column, k)


def collect(column: str) -> Collect:
    """Return all values of a column as a list."""
    return Collect(column)


def collect_set(column: str) -> CollectSet:
    """Return the distinct values of a column as a list."""
    return CollectSet(column)
