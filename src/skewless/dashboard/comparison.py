"""A self-contained page that compares runs: load per worker, and balance against replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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

from skewless.dashboard.figures import add_bars, add_level, add_tips, canvas, text_root
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
    numbers = Section("numbers", "The numbers", "Imbalance and replicas are means over windows.")
    trade = Section("trade_off", "Balance against replicas", best, ours, is_wide=True)
    cards = [(numbers._replace(is_wide=True), numbers_table(runs)), (trade, trade_off(runs))]
    top = 1.08 * max(1.0, *(relative_loads(run.loads, run.capacities).max() for run in runs))
    fair = (Sign("fair share", GREY, "dashed"),)
    for number, run in enumerate(runs):
        name = f"loads-{number}"
        card = Section(name, run.strategy, "Load per worker.", fair)
        cards.append((card, load_bars(run, name, top)))
    return document(TITLE, _heading(runs[0].summary()), cards)


def _heading(row: Mapping[str, Any]) -> str:
    sources = f"{row['sources']} source{'s' * (row['sources'] > 1)}"
    return (
        f"<h1>{TITLE}</h1><p>{escape(row['workload'])}: {row['records']:,} records, "
        f"{row['keys']:,} keys, {sources}, {row['workers']} workers, windows of "
        f"{row['window']:,} records. All plots of loads have the same axis.</p>"
    )


def numbers_table(runs: Sequence[Run]) -> Any:
    """Return a line per run."""
    shown = {"imbalance": ".4f", "replicas per key": ".3f", "makespan, 1 = even": ".2f"}
    names = ("window_imbalance_mean", "window_replication_mean", "makespan_ratio")
    heads = "".join(f"<th class='number'>{head}</th>" for head in shown)
    rows = "".join(
        f"<tr><td class='key'>{escape(run.strategy)}</td>"
        + "".join(
            f"<td class='number'>{row[name]:{form}}</td>"
            for name, form in zip(names, shown.values(), strict=True)
        )
        + "</tr>"
        for run in runs
        for row in [run.summary()]
    )
    return text_root("numbers", f"<table><tr><th>strategy</th>{heads}</tr>{rows}</table>")


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
