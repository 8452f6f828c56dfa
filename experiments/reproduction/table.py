"""What the cells of a figure measured: one entry per cell, found by what was varied."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.records import Row

#: Cells of other cases are found only by the name of their case.
CASE = "case"
#: Entries that differ in nothing else are repetitions.
SEED = "seed"


class Entry(NamedTuple):
    """One cell: what was varied, by axis, and what was measured, by column."""

    axes: Mapping[str, Any]
    row: Row


#: Computes a column from what was measured.
Column = Callable[[Entry], float]


class NotMeasuredError(LookupError):
    """No cell, or no column, is what was asked for."""


class Table:
    """The entries of a figure, and the columns that its paper computes from them.

    >>> table = Table([Entry({"strategy": "pkg", "seed": seed}, {"x": seed}) for seed in (1, 2)])
    >>> table.mean("x", strategy="pkg")
    1.5
    >>> table.mean("x", strategy="pgk")
    Traceback (most recent call last):
        ...
    experiments.reproduction.table.NotMeasuredError: no cell has strategy='pgk'; it has: 'pkg'
    """

    def __init__(self, entries: Sequence[Entry], columns: Mapping[str, Column] | None = None):
        self.entries = list(entries)
        self._columns = dict(columns or {})

    def found(self, **axes: Any) -> list[Entry]:
        """Return the entries with these values, which are one place: they differ by seed alone."""
        matching = self._matching(axes)
        varying = {
            axis: values
            for axis in dict.fromkeys(axis for entry in matching for axis in entry.axes)
            if axis not in (SEED, *axes)
            and len(values := {entry.axes.get(axis) for entry in matching}) > 1
        }
        if varying:
            axis, values = next(iter(varying.items()))
            raise NotMeasuredError(f"{_shown(axes)} has several values of {axis}: {_list(values)}")
        return matching

    def mean(self, column: str, **axes: Any) -> float:
        """Return the mean of a column over the seeds of one place."""
        return float(np.mean([self.value(entry, column) for entry in self.found(**axes)]))

    def series(self, column: str, **axes: Any) -> list[float]:
        """Return the mean over the seeds, item by item, of a column that is a list."""
        rows = [self._measured(entry, column) for entry in self.found(**axes)]
        return [float(value) for value in np.mean(np.asarray(rows, np.float64), axis=0)]

    def values(self, axis: str, **axes: Any) -> list[Any]:
        """Return the measured values of an axis: numbers ascending, texts in their order."""
        found = [entry.axes[axis] for entry in self._matching(axes) if axis in entry.axes]
        if not found:
            raise NotMeasuredError(f"no cell with {_shown(axes)} has an axis {axis!r}")
        values = list(dict.fromkeys(found))
        return values if any(isinstance(value, str) for value in values) else sorted(values)

    def value(self, entry: Entry, column: str) -> float:
        """Return one number of an entry."""
        if column in self._columns:
            return float(self._columns[column](entry))
        return float(self._measured(entry, column))

    def _measured(self, entry: Entry, column: str) -> Any:
        if column not in entry.row:
            known = _list([*self._columns, *entry.row])
            raise NotMeasuredError(f"no column is called {column!r}; there are: {known}")
        return entry.row[column]

    def _matching(self, axes: Mapping[str, Any]) -> list[Entry]:
        """Return the entries with these values; a list means any of its values."""
        matching = self.entries
        for axis, wanted in {CASE: "", **axes}.items():
            allowed = wanted if isinstance(wanted, list) else [wanted]
            default = "" if axis == CASE else None
            left = [entry for entry in matching if entry.axes.get(axis, default) in allowed]
            if not left:
                known = {entry.axes.get(axis, default) for entry in matching} - {None}
                what = f"it has: {_list(known)}" if known else "there is no such axis here"
                raise NotMeasuredError(f"no cell has {axis}={wanted!r}; {what}")
            matching = left
        return matching


def _shown(axes: Mapping[str, Any]) -> str:
    return ", ".join(f"{axis}={value!r}" for axis, value in axes.items()) or "the figure"


def _list(values: Any) -> str:
    return ", ".join(sorted(map(repr, values)))
