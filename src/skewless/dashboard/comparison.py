"""A self-contained page that compares runs: load per worker, and balance against replicas."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bokeh.document import Document
from bokeh.models import (
    BasicTickFormatter,
    ColumnDataSource,
    DataRange1d,
    LabelSet,
    LogTicker,
    LogTickFormatter,
)

from skewless.dashboard.figures import add_bars, add_level, add_tips, canvas
from skewless.dashboard.page_style import BLUE, GREY, RED, Section, Sign, frame, write_document
from skewless.metrics import relative_loads
from skewless.simulator import Run

TITLE = "skewless: strategies compared"
_SMALLEST_IMBALANCE = 1e-6  # where imbalance 0 is drawn on a logarithmic axis
_HIGHLIGHT = "cascade"


def write_page(runs: Sequence[Run], path: Path) -> None:
    """Write the page, with mode 0600; its JavaScript is inside, so it opens without a network."""
    write_document(comparison_document(runs), path)


def comparison_document(runs: Sequence[Run]) -> Document:
    """Return the page as a document of Bokeh."""
    doc = Document()
    doc.add_root(trade_off(runs))
    sections = [
        Section(
            "trade_off",
            "Balance against replicas",
            "Means over windows. The lower left corner is best.",
            (Sign("our own", RED, "box"), Sign("all others", BLUE, "box")),
            is_wide=True,
        )
    ]
    highest = max(float(relative_loads(run.loads, run.capacities).max()) for run in runs)
    for number, run in enumerate(runs):
        name = f"loads-{number}"
        doc.add_root(load_bars(run, name, 1.08 * max(highest, 1.0)))
        legend = (Sign("fair share", GREY, "dashed"),)
        sections.append(Section(name, run.strategy, "Load per worker.", legend))
    heading = (
        "<h1>skewless: strategies compared</h1><p>The same stream, routed by each of them. All "
        "plots of loads have the same axis.</p>"
    )
    frame(doc, TITLE, heading, (), sections)
    return doc


def load_bars(run: Run, name: str, top: float) -> Any:
    """Return a bar per worker, the heaviest first, in units of its fair share.

    `top` is where the axis ends: the same for all runs, so that their heights can be compared.
    """
    heights = sorted(relative_loads(run.loads, run.capacities).tolist(), reverse=True)
    places = list(range(1, len(heights) + 1))
    titles = "workers, highest load first", "load, 1 = fair share"
    plot = canvas(name, *titles, height=200, y_range=(0.0, top))
    source = ColumnDataSource({"place": places, "load": heights})
    bars = add_bars(plot, source, "place", "load", _colour(run.strategy))
    add_level(plot, 1.0)
    add_tips(plot, [("load", "@load{0.00} × fair share")], [bars])
    return plot


def trade_off(runs: Sequence[Run]) -> Any:
    """Return all runs as points: window imbalance to the right, replicas upwards."""
    rows = [run.summary() for run in runs]
    source = ColumnDataSource(
        {
            "strategy": [row["strategy"] for row in rows],
            "imbalance": [max(row["window_imbalance_mean"], _SMALLEST_IMBALANCE) for row in rows],
            "replication": [row["window_replication_mean"] for row in rows],
            "makespan": [row["makespan_ratio"] for row in rows],
            "colour": [_colour(row["strategy"]) for row in rows],
        }
    )
    plot = canvas(
        "trade_off",
        "imbalance (max − mean) / mean",
        "replicas per key",
        height=420,
        x_axis_type="log",
        x_range=DataRange1d(range_padding=0.12),
        y_range=DataRange1d(range_padding=0.12),
    )
    plot.xaxis.ticker = LogTicker()
    plot.xaxis.formatter = LogTickFormatter()
    plot.yaxis.formatter = BasicTickFormatter(use_scientific=False)
    dots = plot.scatter("imbalance", "replication", size=10, color="colour", source=source)
    names = {"x": "imbalance", "y": "replication", "text": "strategy", "source": source}
    plot.add_layout(
        LabelSet(**names, x_offset=8, y_offset=4, text_font_size="12px", text_color=GREY)
    )
    tips = [
        ("strategy", "@strategy"),
        ("imbalance", "@imbalance{0.0000}"),
        ("replicas per key", "@replication{0.000}"),
        ("makespan", "@makespan{0.00}"),
    ]
    add_tips(plot, tips, [dots], across=False)
    return plot


def _colour(strategy: str) -> str:
    return RED if _HIGHLIGHT in strategy else BLUE
