"""The curves of a plot, from the numbers of its figure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from experiments.reproduction.figure import OF_CURVES, Figure, Plot, Points
from experiments.reproduction.numbers import Numbers, is_open, words_of


def curves(figure: Figure, plot: Plot, numbers: Numbers) -> dict[str, Points]:
    """Return the points of all curves, by name."""
    found: dict[str, Points] = {}
    for spec in plot.curves:
        number = {name: value for name, value in spec.items() if name not in OF_CURVES}
        if "curves" in spec:
            found |= figure.paper.curves[spec["curves"]](numbers.table, **number)
            continue
        words = words_of(number)
        columns = number.pop("column") if plot.along == "column" else None
        several = [axis for axis in number if axis not in words and is_open(number[axis])]
        for place in numbers.places(number, {}):
            name = ", ".join(str(place[axis]) for axis in several)
            name = spec["name"].format_map(place) if "name" in spec else name
            if "series" in spec:
                series = numbers.table.series(spec["series"], **place)
                places: Iterable[float] = itertools.count(spec.get("start", 0))
                if "over" in spec:
                    places = numbers.table.series(spec["over"], **place)
                found[name] = list(zip(places, series, strict=False))
            elif "level" in spec:
                ends = [x for points in found.values() for x, _ in points]
                value = numbers.number(words, place)
                found[name] = [(min(ends), value), (max(ends), value)]
            else:
                across = columns or numbers.measured(words, plot.along, place)
                found[name] = [(x, numbers.number(words, {**place, plot.along: x})) for x in across]
    return found
