"""The numbers of claims, as TOML has them, computed from a table.

A number is a table of TOML. Without a kind it is the mean of a `column` over the seeds of one
place; all names that are no words of this file are axes:

    {column = "imbalance", strategy = "pkg", workers = 64}

A kind puts numbers together, each of which takes over what the whole gives:

    {ratio = [{strategy = "pkg"}, {strategy = "hash"}], column = "imbalance", workers = 64}

The value of an axis may be a place of what was measured along it: `@first`, `@second`,
`@next-to-last`, `@last`. With several values (a list, `@each`, `@<=35`), `take` says which of the
numbers counts. At the end, `times` multiplies and `plus` adds. A number may also be a `call` of a
function of its paper, which gets the axes and what else it needs `with` them.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from experiments.reproduction.table import NotMeasuredError, Table

#: A number as TOML has it.
Number = Mapping[str, Any]
#: Computes a number in a way of its own, from the axes that it is given.
Call = Callable[..., float]


def _ratio_of_counts(one: float, other: float) -> float:
    """Return 1 if both are 0, and a million if only the second is."""
    if other == 0.0:
        return 1.0 if one == 0.0 else 1e6
    return one / other


#: What puts numbers together, and how many.
KINDS: dict[str, tuple[int, Callable[..., float]]] = {
    "ratio": (2, lambda one, other: one / other),
    "ratio_of_counts": (2, _ratio_of_counts),
    "difference": (2, lambda one, other: one - other),
    "is_less": (2, lambda one, other: float(one < other)),
    # Where a value is on the way from the second (0) to the third (1).
    "position": (3, lambda value, low, high: (value - low) / (high - low)),
    # The factor between two numbers, whichever is larger.
    "apart": (2, lambda one, other: max(one / other, other / one)),
}
TAKES: dict[str, Callable[[list[float]], float]] = {
    "max": max,
    "min": min,
    "mean": lambda values: sum(values) / len(values),
    "median": statistics.median,
}
_PLACES = {"@first": 0, "@second": 1, "@next-to-last": -2, "@last": -1}
#: What parts of a number do not take over from it: all of its words but the column.
_OWN = {*KINDS, "call", "with", "take", "plus", "times", "at_least"}
#: What is no axis.
WORDS = {*_OWN, "column"}


def check_number(spec: Number, axes: set[str], calls: Mapping[str, Call], where: str) -> None:
    """Refuse a number with an unknown word, axis or call; `where` names it."""
    kinds = [kind for kind in (*KINDS, "call") if kind in spec]
    if len(kinds) > 1:
        raise ValueError(f"{where}: a number has one kind, not {' and '.join(kinds)}")
    for name, value in spec.items():
        if name not in WORDS and name not in axes:
            known = ", ".join(sorted(axes))
            raise ValueError(f"{where}: {name!r} is no axis of this figure; it has: {known}")
        for one in value if isinstance(value, list) else [value]:
            if is_open(one) and not re.fullmatch("@each|@<=[0-9.]+|" + "|".join(_PLACES), one):
                raise ValueError(f"{where}: {one!r} is none of @each, @<=…, {', '.join(_PLACES)}")
    if "call" in spec and spec["call"] not in calls:
        raise ValueError(f"{where}: unknown call {spec['call']!r}; there are: {', '.join(calls)}")
    if spec.get("take", "max") not in TAKES:
        raise ValueError(f"{where}: take must be one of {', '.join(TAKES)}, not {spec['take']!r}")
    for kind, (count, _) in KINDS.items():
        if len(spec.get(kind, [0] * count)) != count:
            raise ValueError(f"{where}: {kind} takes {count} numbers")
        for part in spec.get(kind, ()):
            check_number(part, axes, calls, where)


class Numbers:
    """Computes the numbers of one figure."""

    def __init__(self, table: Table, calls: Mapping[str, Call] | None = None) -> None:
        self.table, self._calls = table, dict(calls or {})

    def number(self, spec: Number, given: Mapping[str, Any] | None = None) -> float:
        """Return a number; `given` are the column and the axes that it takes over."""
        values = [self._one(spec, place) for place in self.places(spec, given or {})]
        if "take" in spec:
            value = TAKES[spec["take"]](values)
        elif len(values) == 1:
            value = values[0]
        else:
            raise ValueError(f"{dict(spec)}: of {len(values)} numbers, take must say which counts")
        value = max(value, spec.get("at_least", value))
        return float(spec.get("times", 1) * value + spec.get("plus", 0))

    def places(self, spec: Number, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the places that a number is computed at: one value for each of its axes."""
        own = {name: value for name, value in spec.items() if name not in _OWN}
        plain = {name: value for name, value in own.items() if not is_open(value)}
        places = [{**given, **plain}]
        for axis in own:
            if axis not in plain:
                places = [
                    {**place, axis: value}
                    for place in places
                    for value in self._chosen(spec, axis, own[axis], place)
                ]
        return places

    def _measured(self, spec: Number, axis: str, given: Mapping[str, Any]) -> list[Any]:
        """Return the measured values of an axis, which must be the same for all parts."""
        found = [
            self.table.values(axis, **axes) for axes in _leaves(spec, given) if axis not in axes
        ]
        if not found or any(values != found[0] for values in found):
            raise NotMeasuredError(f"{axis!r} does not have the same values in all parts: {found}")
        return found[0]

    def _one(self, spec: Number, place: Mapping[str, Any]) -> float:
        for kind, (_, combine) in KINDS.items():
            if kind in spec:
                return float(combine(*(self.number(part, place) for part in spec[kind])))
        if "call" in spec:
            return float(self._calls[spec["call"]](self.table, **place, **spec.get("with", {})))
        if "column" not in place:
            raise ValueError(f"{dict(spec)}: a number needs a column")
        return self.table.mean(**place)

    def _chosen(self, spec: Number, axis: str, value: Any, place: Mapping[str, Any]) -> list[Any]:
        if isinstance(value, list):
            return [
                one
                for part in value
                for one in (self._chosen(spec, axis, part, place) if is_open(part) else [part])
            ]
        words = {name: one for name, one in spec.items() if name in _OWN}
        measured = self._measured(words, axis, place)
        if value == "@each":
            return measured
        if value.startswith("@<="):
            return [one for one in measured if one <= float(value.removeprefix("@<="))]
        return [measured[_PLACES[value]]]


def is_open(value: Any) -> bool:
    """Return whether a value of an axis stands for what was measured, or for several."""
    return isinstance(value, list) or (isinstance(value, str) and value.startswith("@"))


def _leaves(spec: Number, given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the axes of all parts of a number, without those that are still open."""
    own = {**given, **{name: value for name, value in spec.items() if name not in _OWN}}
    parts = [part for kind in KINDS for part in spec.get(kind, ())]
    for part in parts:
        yield from _leaves(part, own)
    if not parts:
        yield {
            axis: value
            for axis, value in own.items()
            if axis != "column"
            and not any(map(is_open, value if isinstance(value, list) else [value]))
        }
