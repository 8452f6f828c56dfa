"""Plots of a paper's figure: our curves as lines, published points as hollow diamonds."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bokeh.embed import json_item
from bokeh.models import ColumnDataSource, FactorRange, HoverTool
from bokeh.plotting import figure
from bokeh.transform import dodge

#: Stand for the colours of text and of grids, which the page sets for a light or a dark screen.
INK = "#0a0b0c"
GRID = "#0d0e0f"

HIGHLIGHT = "cascade"
_STRONG = "#dd4422"
#: Distinguishable with colour-vision deficiencies, on white and on black.
_COLOURS = ("#4488cc", "#229944", "#aa55bb", "#bb8800", "#22aabb", "#ee6699", "#888888")
_DASHES: tuple[list[int], ...] = ([], [6, 3], [2, 2])
_UNEVEN = 4.0  # of two steps on the x axis: with more, the axis is logarithmic
_MOST_TICKS = 8  # one at each number that was measured, if they are not more
_MANY_POINTS = 40  # a curve with more has smaller dots
_SPREAD = 0.7  # of a category's width, for the points of all curves
_MANY_CATEGORIES = 4
_LONGEST_LINE = 40  # of the title of an axis

Points = Sequence[Sequence[Any]]


class Look(NamedTuple):
    """How a curve is drawn, the same in the plot and in its legend."""

    name: str
    colour: str
    dash: list[int]
    width: int


def looks(plot: Mapping[str, Any]) -> list[Look]:
    """Return how the curves of a plot are drawn, ours first."""
    names = list(dict.fromkeys([*plot["curves"], *plot["published"]]))
    found: list[Look] = []
    number = 0
    for name in names:
        if HIGHLIGHT in name.lower():
            n_strong = sum(look.colour == _STRONG for look in found)
            found.append(Look(name, _STRONG, _DASHES[n_strong % len(_DASHES)], 3))
            continue
        dash = _DASHES[number // len(_COLOURS) % len(_DASHES)]
        found.append(Look(name, _COLOURS[number % len(_COLOURS)], dash, 2))
        number += 1
    return found


def is_empty(plot: Mapping[str, Any]) -> bool:
    """Return whether a plot has no point to show."""
    return not any(
        y is not None
        for curves in (plot["curves"], plot["published"])
        for points in curves.values()
        for _, y in points
    )


def plot_item(plot: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plot as Bokeh's JSON; the page draws it when it comes into view."""
    item: dict[str, Any] = json_item(draw(plot))
    return item


def draw(plot: Mapping[str, Any]) -> Any:
    """Return one plot: titles `x` and `y`, `log_y`, and points by name in `curves`, `published`."""
    every = [p for curves in (plot["curves"], plot["published"]) for p in curves.values()]
    across = [x for points in every for x, _ in points]
    heights = [y for points in every for _, y in points if y is not None]
    in_categories = any(isinstance(x, str) for x in across)
    if in_categories:
        settings: dict[str, Any] = {"x_range": FactorRange(*dict.fromkeys(map(str, across)))}
    else:
        settings = {"x_axis_type": "log" if _is_uneven(across) else "linear"}
    positive = [y for y in heights if y > 0]
    log_y = bool(plot["log_y"] and positive)
    canvas = figure(
        **settings,
        y_axis_type="log" if log_y else "linear",
        height=320,
        sizing_mode="stretch_width",
        toolbar_location=None,
        tools="",
    )
    # Values of 0 or below are drawn at the lower end of a logarithmic axis.
    lowest = min(positive) / 2 if log_y else None
    styles = {look.name: look for look in looks(plot)}
    for kind in ("curves", "published"):
        for number, (name, points) in enumerate(plot[kind].items()):
            offset = _SPREAD * ((number + 0.5) / len(plot[kind]) - 0.5)
            x = dodge("x", offset, range=canvas.x_range) if in_categories else "x"
            source = _source(name, points, lowest, in_categories)
            _add(canvas, kind == "published", x, source, styles[name], in_categories)
    if not log_y and min(heights) >= 0:
        canvas.y_range.start = 0
    if not in_categories and len(set(across)) <= _MOST_TICKS:
        canvas.xaxis.ticker = sorted(set(across))
    _dress(canvas, plot, in_categories)
    return canvas


def _is_uneven(across: Sequence[float]) -> bool:
    """Return whether numbers, all above 0, get further apart, as 16, 32, 64 … do."""
    places = sorted(set(across))
    steps = [b - a for a, b in itertools.pairwise(places)]
    return bool(steps) and places[0] > 0 and max(steps) > _UNEVEN * min(steps)


def _source(
    name: str, points: Points, lowest: float | None, in_categories: bool
) -> ColumnDataSource:
    values = [math.nan if y is None else float(y) for _, y in points]
    places = values if lowest is None else [max(y, lowest) for y in values]
    return ColumnDataSource(
        {
            "x": [str(x) if in_categories else x for x, _ in points],
            "y": places,
            "value": values,
            "name": [name] * len(points),
        }
    )


def _add(
    canvas: Any, published: bool, x: Any, source: ColumnDataSource, look: Look, in_categories: bool
) -> None:
    """Add the points of one curve; categories have no order, so no line joins them."""
    if published:
        renderer = canvas.scatter(
            x, "y", source=source, marker="diamond", size=14, line_width=2,
            line_color=look.colour, fill_alpha=0.0,
        )  # fmt: skip
    else:
        if not in_categories:
            canvas.line(
                x, "y", source=source, color=look.colour, line_width=look.width,
                line_dash=look.dash,
            )  # fmt: skip
        size = 10 if in_categories else 2 if len(source.data["x"]) > _MANY_POINTS else 6
        renderer = canvas.scatter(x, "y", source=source, size=size, color=look.colour)
    label = "@name, published" if published else "@name"
    tips = [("", label), ("x", "@x"), ("y", "@value{0.[0000]}")]
    canvas.add_tools(HoverTool(renderers=[renderer], tooltips=tips))


def _in_lines(title: str) -> str:
    """Return the title of an axis in lines that fit the height of a plot, and a phone."""
    return "\n".join(textwrap.wrap(title, _LONGEST_LINE))


def _dress(canvas: Any, plot: Mapping[str, Any], in_categories: bool) -> None:
    canvas.xaxis.axis_label = _in_lines(plot["x"])
    canvas.yaxis.axis_label = _in_lines(plot["y"])
    canvas.background_fill_alpha = 0.0
    canvas.border_fill_alpha = 0.0
    canvas.outline_line_color = None
    canvas.grid.grid_line_color = GRID
    for axis in canvas.axis:
        axis.axis_label_text_color = INK
        axis.axis_label_text_font_style = "normal"
        axis.major_label_text_color = INK
        axis.axis_line_color = INK
        axis.major_tick_line_color = INK
        axis.minor_tick_line_color = None
    if in_categories:
        canvas.xgrid.grid_line_color = None
        if len(canvas.x_range.factors) > _MANY_CATEGORIES:
            canvas.xaxis.major_label_orientation = 0.7
