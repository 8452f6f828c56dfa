"""A self-contained page that compares runs: load per worker, and balance against replicas."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
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

from skewless.dashboard import figures
from skewless.dashboard.page_style import BLUE, GREY, RED, Section, Sign, document
from skewless.metrics import relative_loads
from skewless.simulator import Run

TITLE = "skewless: strategies compared"
_SMALLEST_IMBALANCE = 1e-6  # where imbalance 0 is drawn on a logarithmic axis
_HIGHLIGHT = "cascade"


def comparison_document(runs: Sequence[Run]) -> Document:
    """Return the page."""
    best = "Means over windows. The lower left corner is best."
    ours = (Sign("our own", RED, "box"), Sign("all others", BLUE, "box"))
    numbers = Section(
        "numbers", "The numbers", "Imbalance and replicas are means over windows.", is_wide=True
    )
    trade = Section("trade_off", "Balance against replicas", best, ours, is_wide=True)
    cards = [(numbers, numbers_table(runs)), (trade, trade_off(runs))]
    # All plots have the same axis, so that their heights can be compared.
    top = 1.08 * max(1.0, *(relative_loads(run.loads, run.capacities).max() for run in runs))
    fair = (Sign("fair share", GREY, "dashed"),)
    for number, run in enumerate(runs):
        card = Section(f"loads-{number}", run.strategy, "Load per worker.", fair)
        cards.append((card, load_bars(run, card.root, top)))
    row = runs[0].summary()
    heading = (
        f"<h1>{TITLE}</h1><p>{escape(row['workload'])}: {row['records']:,} records, "
        f"{row['keys']:,} keys, {row['sources']} source{'s' * (row['sources'] > 1)}, "
        f"{row['workers']} workers, windows of {row['window']:,} records. All plots of loads have "
        "the same axis.</p>"
    )
    return document(TITLE, heading, cards)


def numbers_table(runs: Sequence[Run]) -> Any:
    """Return a line per run."""
    heads = ("imbalance", "replicas per key", "makespan, 1 = even")
    cells = "<td class='key'>{}</td>" + "<td class='number'>{}</td>" * len(heads)
    rows = "<th>strategy</th>" + "".join(f"<th class='number'>{head}</th>" for head in heads)
    for run in runs:
        row = run.summary()
        imbalance, replication = row["window_imbalance_mean"], row["window_replication_mean"]
        numbers = (f"{imbalance:.4f}", f"{replication:.3f}", f"{row['makespan_ratio']:.2f}")
        rows += f"</tr><tr>{cells.format(escape(run.strategy), *numbers)}"
    return figures.text_root("numbers", f"<table><tr>{rows}</tr></table>")


def load_bars(run: Run, name: str, top: float) -> Any:
    """Return a bar per worker, the heaviest first, in units of its fair share."""
    heights = sorted(relative_loads(run.loads, run.capacities).tolist(), reverse=True)
    return figures.bar_plot(
        *(name, "workers, highest load first", "load, 1 = fair share"),
        {"place": list(range(1, len(heights) + 1)), "load": heights},
        [("load", "@load{0.00} × fair share")],
        colour=_colour(run.strategy),
        level=1.0,
        height=200,
        y_range=(0.0, top),
    )


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
    ranges = {axis: DataRange1d(range_padding=0.12) for axis in ("x_range", "y_range")}
    titles = "imbalance (max − mean) / mean", "replicas per key"
    plot = figures.canvas("trade_off", *titles, height=420, x_axis_type="log", **ranges)
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
    figures.add_tips(plot, tips, [dots], across=False)
    return plot


def _colour(strategy: str) -> str:
    return RED if _HIGHLIGHT in strategy else BLUE
