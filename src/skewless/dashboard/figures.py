"""Plots in the style of our pages: no toolbar, no legend over the data, a pale grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bokeh.models import (
    AdaptiveTicker,
    BasicTickFormatter,
    ColumnDataSource,
    DataRange1d,
    Div,
    HoverTool,
    InlineStyleSheet,
    NumeralTickFormatter,
    Span,
)
from bokeh.plotting import figure

from skewless.dashboard.page_style import GREY, TEXT_STYLE

# For a light screen; the script of the page sets those of a dark one.
_PALE, _LINE = "#5d636d", "#dfe2e7"
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
#: The style of a limit.
DASHED: dict[str, Any] = {"line_color": GREY, "line_dash": [6, 4], "line_width": 1.5}
_AXIS = {
    **{f"{text}_text_color": _PALE for text in ("axis_label", "major_label")},
    **{f"{text}_text_font": _FONT for text in ("axis_label", "major_label")},
    **{f"{text}_text_font_size": "12px" for text in ("axis_label", "major_label")},
    **{"axis_label_text_font_style": "normal", "axis_label_standoff": 6},
    **{"axis_line_color": _LINE, "major_tick_line_color": _LINE, "minor_tick_line_color": None},
}


def canvas(name: str, x: str, y: str, *, height: int = 240, **settings: Any) -> Any:
    """Return an empty plot that is as wide as its card; `x` and `y` are the titles of its axes.

    Unless `settings` say otherwise, values go upwards from 0 to a little above the highest one.
    """
    upwards = DataRange1d(start=0, range_padding=0.08, default_span=1.0)
    plot = figure(
        name=name,
        height=height,
        sizing_mode="stretch_width",
        toolbar_location=None,
        tools="",
        min_border_left=8,
        min_border_right=12,
        **{"x_range": DataRange1d(range_padding=0.03), "y_range": upwards, **settings},
    )
    plot.background_fill_alpha = 0.0
    plot.border_fill_alpha = 0.0
    plot.outline_line_color = None
    plot.xgrid.grid_line_color = None
    plot.ygrid.grid_line_color = _LINE
    plot.xaxis.axis_label, plot.yaxis.axis_label = x, y
    for axis in plot.axis:
        axis.update(**_AXIS)
    plot.yaxis.axis_line_color = None
    if "x_axis_type" not in settings:
        plot.xaxis.formatter = BasicTickFormatter(use_scientific=False)
        whole_numbers(plot.xaxis)
    return plot


def whole_numbers(axis: Any) -> None:
    """Put the ticks of an axis at whole numbers only, for micro-batches or workers."""
    axis.ticker = AdaptiveTicker(min_interval=1, mantissas=[1, 2, 5], base=10, desired_num_ticks=8)


def short_numbers(axis: Any, form: str) -> None:
    """Format the numbers of an axis: 12k instead of 12000 by `0.[0]a`."""
    axis.formatter = NumeralTickFormatter(format=form)


def add_line(plot: Any, source: ColumnDataSource, x: str, y: str, colour: str) -> Any:
    """Add a line with a dot at each value."""
    plot.line(x, y, source=source, line_color=colour, line_width=2)
    return plot.scatter(x, y, source=source, size=5, color=colour)


def add_bars(plot: Any, source: ColumnDataSource, x: str, top: str, colour: str) -> Any:
    """Add bars; `colour` is a colour, or the column that has the colours."""
    return plot.vbar(x=x, top=top, width=0.8, source=source, fill_color=colour, line_color=None)


def add_level(plot: Any, level: float) -> None:
    """Add a dashed line across the plot."""
    plot.add_layout(Span(location=level, dimension="width", **DASHED))


def add_tips(
    plot: Any, tips: Sequence[tuple[str, str]], renderers: Sequence[Any], *, across: bool = True
) -> None:
    """Show the values under the pointer; with `across`, those at its place on the x axis."""
    mode = "vline" if across else "mouse"
    plot.add_tools(HoverTool(tooltips=list(tips), renderers=list(renderers), mode=mode))


def text_root(name: str, html: str = "") -> Any:
    """Return a root that is HTML; its texts must be escaped."""
    style = InlineStyleSheet(css=TEXT_STYLE)
    return Div(name=name, text=html, sizing_mode="stretch_width", stylesheets=[style], margin=0)
