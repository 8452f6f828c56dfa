"""A self-contained page that compares runs: load per worker, and balance against replicas."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bokeh.embed import file_html
from bokeh.layouts import column, gridplot
from bokeh.models import ColumnDataSource, HoverTool, LabelSet, Span
from bokeh.plotting import figure
from bokeh.resources import INLINE

from skewless.metrics import relative_loads
from skewless.private_files import write_private
from skewless.simulator import Run

_BAR = "#4477aa"
_FAIR = "#cc3311"
_SMALLEST_IMBALANCE = 1e-6  # where imbalance 0 stands on a logarithmic axis


def write_page(runs: Sequence[Run], path: Path) -> None:
    """Write the page, with mode 0600; its JavaScript is inside, so it opens without a network."""
    page = column(trade_off(runs), gridplot([load_bars(run) for run in runs], ncols=3))
    write_private(path, file_html(page, INLINE, "skewless: load per worker"))


def load_bars(run: Run) -> Any:
    """Return a bar per worker, the heaviest first, in units of its fair share."""
    heights = sorted(relative_loads(run.loads, run.capacities).tolist(), reverse=True)
    plot = figure(
        title=f"{run.strategy}: load per worker, 1 = fair share",
        width=380,
        height=220,
        y_range=(0.0, max(1.2, heights[0] * 1.05)),
        toolbar_location=None,
    )
    plot.vbar(x=list(range(len(heights))), top=heights, width=0.85, color=_BAR)
    plot.add_layout(Span(location=1.0, dimension="width", line_color=_FAIR, line_dash="dashed"))
    plot.xaxis.axis_label = "workers, heaviest first"
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
        }
    )
    plot = figure(
        title="Balance against replicas, means over windows: the lower left corner is best",
        x_axis_type="log",
        width=1140,
        height=420,
    )
    plot.scatter("imbalance", "replication", size=10, color=_BAR, source=source)
    plot.add_layout(
        LabelSet(
            x="imbalance", y="replication", text="strategy", x_offset=7, y_offset=4, source=source
        )
    )
    plot.add_tools(
        HoverTool(
            tooltips=[
                ("strategy", "@strategy"),
                ("imbalance", "@imbalance"),
                ("replicas per key", "@replication"),
                ("makespan", "@makespan"),
            ]
        )
    )
    plot.xaxis.axis_label = "imbalance (max − mean) / mean"
    plot.yaxis.axis_label = "replicas per key"
    return plot
