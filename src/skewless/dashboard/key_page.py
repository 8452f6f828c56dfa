"""A self-contained page about the keys of a stream, from plain data: skew, drift, what helps."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from bokeh.embed import file_html
from bokeh.layouts import column, row
from bokeh.models import ColumnDataSource, Div, HoverTool, LabelSet, Span
from bokeh.plotting import figure
from bokeh.resources import INLINE

from skewless.plumbing.private_files import write_private

#: A report of `skewless diagnose` as plain data: see `KeyReport.as_dict`.
Report = Mapping[str, Any]

_BAR = "#4477aa"
_FAIR = "#cc3311"
_WIDTH = 1140
_LISTED = 20


def write_key_page(report: Report, source: str, path: Path) -> None:
    """Write the page, with mode 0600; its JavaScript is inside, so it opens without a network.

    `source` says where the records are. It and the heaviest keys are text, not HTML.
    """
    page = column(
        Div(text=_said(report, source), width=_WIDTH),
        row(skew_curve(report), heaviest_bars(report)),
        row(drift_bars(report), fullest_bars(report)),
        trade_off(report),
    )
    write_private(path, file_html(page, INLINE, "skewless: keys"))


def skew_curve(report: Report) -> Any:
    """Return the share of the heaviest keys by rank, both on logarithmic axes."""
    plot = figure(
        title="Share of the records by rank of the key",
        width=_WIDTH // 2,
        height=320,
        x_axis_type="log",
        y_axis_type="log",
    )
    ranks = [rank for rank, _ in report["curve"]]
    shares = [share for _, share in report["curve"]]
    plot.line(ranks, shares, line_width=2, color=_BAR)
    plot.scatter(ranks, shares, size=6, color=_BAR)
    fair = Span(location=1 / report["n_workers"], dimension="width", line_color=_FAIR)
    fair.line_dash = "dashed"
    plot.add_layout(fair)
    plot.add_tools(HoverTool(tooltips=[("rank", "@x"), ("share", "@y{0.0000%}")]))
    plot.xaxis.axis_label = "rank of the key"
    plot.yaxis.axis_label = "share; dashed: fair share of a worker"
    return plot


def heaviest_bars(report: Report) -> Any:
    """Return a bar for each of the heaviest keys, with the name of the key."""
    shares = [share for _, share in report["top_keys"]][:_LISTED]
    keys = report["top_key_texts"][: len(shares)]
    source = ColumnDataSource({"place": list(range(len(shares))), "share": shares, "key": keys})
    plot = figure(
        title="The heaviest keys", width=_WIDTH // 2, height=320, toolbar_location=None, tools=""
    )
    plot.vbar(x="place", top="share", width=0.85, color=_BAR, source=source)
    plot.add_tools(HoverTool(tooltips=[("key", "@key"), ("share", "@share{0.00%}")]))
    plot.y_range.start = 0
    plot.xaxis.axis_label = "point at a bar for its key"
    plot.yaxis.axis_label = "share of the records"
    return plot


def drift_bars(report: Report) -> Any:
    """Describe the drift of the heaviest keys from one tenth of the stream to the next."""
    drifts = list(report["drifts"])
    plot = figure(
        title="Drift: how many of the heaviest keys change",
        width=_WIDTH // 2,
        height=320,
        y_range=(0.0, 1.0),
        toolbar_location=None,
    )
    plot.vbar(x=[2 + place for place in range(len(drifts))], top=drifts, width=0.85, color=_BAR)
    plot.xaxis.axis_label = "tenth of the stream, against the one before"
    plot.yaxis.axis_label = "0: none, 1: all"
    return plot


def fullest_bars(report: Report) -> Any:
    """Return the load of the fullest worker under each strategy, in units of its fair share."""
    names = [one["strategy"] for one in report["predictions"]]
    heights = [1.0 + one["imbalance"] for one in report["predictions"]]
    plot = figure(
        title="Predicted load of the fullest worker, 1 = fair share",
        width=_WIDTH // 2,
        height=320,
        x_range=names,
        y_range=(0.0, 1.05 * max([1.2, *heights])),
        toolbar_location=None,
    )
    plot.vbar(x=names, top=heights, width=0.85, color=_BAR)
    plot.add_layout(Span(location=1.0, dimension="width", line_color=_FAIR, line_dash="dashed"))
    plot.xaxis.major_label_orientation = 0.8
    return plot


def trade_off(report: Report) -> Any:
    """Return all strategies as points: load of the fullest worker, and workers per key."""
    rows = report["predictions"]
    source = ColumnDataSource(
        {
            "strategy": [one["strategy"] for one in rows],
            "slowest": [1.0 + one["imbalance"] for one in rows],
            "replicas": [one["replication"] for one in rows],
        }
    )
    plot = figure(
        title="Balance against replicas: the lower left corner is best", width=_WIDTH, height=360
    )
    plot.scatter("slowest", "replicas", size=10, color=_BAR, source=source)
    plot.add_layout(
        LabelSet(x="slowest", y="replicas", text="strategy", x_offset=7, y_offset=4, source=source)
    )
    tips = [("strategy", "@strategy"), ("fullest", "@slowest"), ("workers per key", "@replicas")]
    plot.add_tools(HoverTool(tooltips=tips))
    plot.xaxis.axis_label = "load of the fullest worker, 1 = fair share"
    plot.yaxis.axis_label = "workers per key"
    return plot


def _said(report: Report, source: str) -> str:
    lines = [
        f"<h2>skewless: the keys of {escape(source)}</h2>",
        f"<p>{report['n_records']:,} records, {report['n_keys']:,} keys, "
        f"{report['n_workers']} workers; {report['n_above_fair_share']} keys above the fair share "
        "of one worker.</p>",
        f"<p><b>{escape(report['advice'])}</b></p>",
    ]
    if report["n_simulated"] < report["n_records"]:
        lines.append(
            f"<p>The predictions are made from the first {report['n_simulated']:,} records.</p>"
        )
    return "".join(lines)
