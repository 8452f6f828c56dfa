"""Static pictures for documents: SVG files that are the same, byte by byte, for the same records.

They are drawn from records, the summaries of runs, so that no picture needs a new run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.records import PROJECT, Row

PICTURES = PROJECT / "docs" / "pictures"
HIGHLIGHT = "cascade"
STRONG = "#cc3311"
LINE = "#4477aa"
PALE = "#999999"
_SMALLEST_IMBALANCE = 1e-6  # where imbalance 0 is drawn on a logarithmic axis
_SMALLEST_REPLICATION = 1e-5
_LABEL_DECADES = 1.0  # labels of points closer than that would cover each other
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "skewless",  # else every file has its own names
    "svg.fonttype": "none",  # text stays text: small files that can be searched
    "font.family": "sans-serif",
    "font.size": 8.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.0,
    "axes.edgecolor": "#555555",
}


def frontier(records: Iterable[Row], path: Path, n_columns: int = 3) -> None:
    """Draw balance against replicas: a panel per cell, a point per strategy, and the front.

    A record has `panel` (the title of its cell), `strategy`, `label` (its name, with marks),
    `imbalance`, `replication` and `on_front`. Both axes are logarithmic; 0 is drawn at their
    lower ends.
    """
    cells: dict[str, list[Row]] = {}
    for record in records:
        cells.setdefault(record["panel"], []).append(record)
    if not cells:
        raise ValueError("records must be of at least one cell, not 0")
    across = [_place(record)[0] for cell in cells.values() for record in cell]
    middle = math.sqrt(min(across) * max(across))
    n_columns = min(n_columns, len(cells))
    n_rows = math.ceil(len(cells) / n_columns)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(3.5 * n_columns, 2.8 * n_rows), layout="constrained")
        grid = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
        panels = [panel for row in grid for panel in row]
        for panel, (title, cell) in zip(panels, cells.items(), strict=False):
            _draw_cell(panel, title, cell, middle)
        for panel in panels[len(cells) :]:
            panel.set_axis_off()
        for panel in panels[max(0, len(cells) - n_columns) : len(cells)]:
            panel.tick_params(labelbottom=True)
        figure.supxlabel("imbalance (max − mean) / mean", fontsize=9)
        figure.supylabel("replicas per key − 1", fontsize=9)
        save(figure, path)


def _draw_cell(panel: Axes, title: str, cell: Sequence[Row], middle: float) -> None:
    panel.set_title(title)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.minorticks_off()
    panel.grid(color="#eeeeee", linewidth=0.6)
    panel.set_axisbelow(True)
    best = sorted(_place(record) for record in cell if record["on_front"])
    # Between two points of the front, the area above and to the right of the first is taken.
    panel.step(*zip(*best, strict=True), where="post", color=LINE, linewidth=1.0, zorder=1)
    for record in cell:
        own = record["strategy"] == HIGHLIGHT
        x, y = _place(record)
        panel.plot(
            *([x], [y]),
            marker="D" if own else "o",
            markersize=6 if own else 4 if record["on_front"] else 3,
            color=STRONG if own else LINE if record["on_front"] else PALE,
            linestyle="none",
            zorder=3 if own else 2,
            clip_on=False,
        )
    for (x, y), text in _labels(cell):
        own = text == HIGHLIGHT
        # Below the front is nothing; where a label would leave the panel it turns round.
        to_the_left = x > middle and not own
        above = own or y <= _SMALLEST_REPLICATION
        label = panel.annotate(
            text,
            (x, y),
            xytext=(-4 if to_the_left else 4, 3 if above else -3),
            textcoords="offset points",
            horizontalalignment="right" if to_the_left else "left",
            verticalalignment="bottom" if above else "top",
            fontsize=8 if own else 6,
            fontweight="bold" if own else "normal",
            color=STRONG if own else LINE,
            zorder=4,
        )
        label.set_in_layout(False)


def _labels(cell: Sequence[Row]) -> list[tuple[tuple[float, float], str]]:
    """Return the names to write and where; neighbours on the front share a label."""
    best = [record for record in cell if record["on_front"] and record["strategy"] != HIGHLIGHT]
    labels = [(_place(record), HIGHLIGHT) for record in cell if record["strategy"] == HIGHLIGHT]
    last: tuple[float, float] | None = None
    for record in sorted(best, key=_place):
        place = _place(record)
        if last is not None and _decades(place, last) < _LABEL_DECADES:
            labels[-1] = labels[-1][0], f"{labels[-1][1]}, {record['label']}"
        else:
            labels.append((place, record["label"]))
        last = place
    return labels


def _decades(one: tuple[float, float], other: tuple[float, float]) -> float:
    return max(abs(math.log10(a / b)) for a, b in zip(one, other, strict=True))


def _place(record: Row) -> tuple[float, float]:
    return (
        max(record["imbalance"], _SMALLEST_IMBALANCE),
        max(record["replication"] - 1.0, _SMALLEST_REPLICATION),
    )


def save(figure: Figure, path: Path) -> None:
    """Write an SVG file that changes only when the picture does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Neither date nor version.
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
