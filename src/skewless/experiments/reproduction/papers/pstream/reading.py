"""Reads numbers out of results whose labels are a strategy and what it was measured at.

A label is `strategy at`: `pkg 64` is PKG on 64 workers, `pkg 1.5` PKG with z = 1.5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from skewless.experiments.reproduction.figure import Number, Points, Results
from skewless.experiments.tables import Row


def pairs(row: Row) -> float:
    """Return how many pairs of a key and a worker hold state: the memory of all workers."""
    return float(row["replication"]) * float(row["keys"])


def curve(results: Results, name: str, number: Number) -> list[tuple[float, float]]:
    """Return the points of one strategy, ascending by where they were measured.

    >>> from skewless.experiments.reproduction.figure import column
    >>> curve({"pkg 8": {"x": 2.0}, "hash 8": {"x": 3.0}, "pkg 16": {"x": 1.0}}, "pkg", column("x"))
    [(8.0, 2.0), (16.0, 1.0)]
    """
    prefix = name + " "
    found = []
    for label, row in results.items():
        if label.startswith(prefix):
            found.append((float(label.removeprefix(prefix)), number(row)))
    return sorted(found)


def curves(names: Sequence[str], number: Number) -> Callable[[Results], Mapping[str, Points]]:
    """Return what draws one curve per strategy."""
    return lambda results: {name: curve(results, name, number) for name in names}


def last(name: str, number: Number) -> Callable[[Results], float]:
    """Return what reads the last point of a curve: the most workers, or the most skew."""
    return lambda results: curve(results, name, number)[-1][1]


def last_ratio(one: str, other: str, number: Number) -> Callable[[Results], float]:
    """Return what divides the last point of a curve by that of another."""
    return lambda results: last(one, number)(results) / last(other, number)(results)


def growth(name: str, number: Number) -> Callable[[Results], float]:
    """Return what divides the last point of a curve by its first."""

    def divide(results: Results) -> float:
        points = curve(results, name, number)
        return points[-1][1] / points[0][1]

    return divide


def mean_of(results: Results, name: str, number: Number) -> float:
    """Return the mean over a curve, such as one whose points are seeds."""
    return float(np.mean([y for _, y in curve(results, name, number)]))


def mean_ratio(one: str, other: str, number: Number) -> Callable[[Results], float]:
    """Return what divides the mean over a curve by that over another."""
    return lambda results: mean_of(results, one, number) / mean_of(results, other, number)


def ratio(one: str, other: str, number: Number) -> Callable[[Results], float]:
    """Return what divides the number of one cell by that of another."""
    return lambda results: number(results[one]) / number(results[other])


def load_stddev(row: Row) -> float:
    """Return the standard deviation of the loads of all workers, in parts of their mean."""
    return float(np.std(row["loads"]) / np.mean(row["loads"]))
