"""Cells of a figure by curve, x and seed, and numbers that are averages over its seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from skewless.experiments.reproduction.figure import (
    Cell,
    Number,
    Points,
    Results,
    Size,
    column,
)

#: Makes the cell of a curve at x, with a seed.
Make = Callable[[str, float, int], Cell]

_BETWEEN = " | "


def grid(size: Size, curves: Iterable[str], xs: Iterable[float], make: Make) -> dict[str, Cell]:
    """Return the cells of all curves at all x, for each seed of the size."""
    places = [(curve, x, seed) for curve in curves for x in xs for seed in size.seeds]
    return {
        _BETWEEN.join((curve, f"{x:g}", f"seed {seed}")): make(curve, x, seed)
        for curve, x, seed in places
    }


def xs(results: Results, curve: str) -> list[float]:
    """Return where the curve was measured, in order."""
    found = {label.split(_BETWEEN)[1] for label in results if _is_of(label, curve)}
    return sorted(float(x) for x in found)


def _is_of(label: str, curve: str) -> bool:
    return label.startswith(curve + _BETWEEN)


def at(results: Results, curve: str, x: float, take: Number | str) -> float:
    """Return the number of a curve at x: the mean over the seeds."""
    chosen = column(take) if isinstance(take, str) else take
    begin = _BETWEEN.join((curve, f"{x:g}", ""))
    values = [chosen(row) for label, row in results.items() if label.startswith(begin)]
    return float(np.mean(values))


def first(results: Results, curve: str, take: Number | str) -> float:
    """Return the number of a curve at its smallest x."""
    return at(results, curve, xs(results, curve)[0], take)


def last(results: Results, curve: str, take: Number | str) -> float:
    """Return the number of a curve at its largest x."""
    return at(results, curve, xs(results, curve)[-1], take)


def ratios(results: Results, one: str, other: str, take: Number | str) -> list[float]:
    """Return one curve over another, at each x of both; 1 where both are 0."""
    common = [x for x in xs(results, one) if x in xs(results, other)]
    return [ratio(at(results, one, x, take), at(results, other, x, take)) for x in common]


def ratio(one: float, other: float) -> float:
    """Return one number over another; 1 where both are 0, and much where only the other is.

    >>> ratio(1.0, 2.0), ratio(0.0, 0.0), ratio(1.0, 0.0)
    (0.5, 1.0, 1000000.0)
    """
    if other == 0.0:
        return 1.0 if one == 0.0 else 1e6
    return one / other


def curves(names: Mapping[str, Number | str]) -> Callable[[Results], dict[str, Points]]:
    """Return what makes the points of a plot: for each curve, what to take of its cells."""

    def points(results: Results) -> dict[str, Points]:
        return {
            curve: [(x, at(results, curve, x, take)) for x in xs(results, curve)]
            for curve, take in names.items()
            if xs(results, curve)
        }

    return points


def same(names: Sequence[str], take: Number | str) -> dict[str, Number | str]:
    """Return the same choice for several curves."""
    return dict.fromkeys(names, take)
