"""A self-contained page about the keys of a stream, from plain data: skew, drift, what helps."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from bokeh.models import ColumnDataSource, DataRange1d, LabelSet

from skewless.dashboard.figures import add_bars, add_level, add_line, add_tips, canvas
from skewless.dashboard.page_style import BLUE, GREY, Section, Sign, document, write_document

#: A report of `skewless diagnose` as plain data: see `KeyReport.as_dict`.
Report = Mapping[str, Any]

_LISTED = 20
_FAIR = (Sign("fair share of a worker", GREY, "dashed"),)


def write_key_page(report: Report, source: str, path: Path) -> None:
    """Write the page, with mode 0600; its JavaScript is inside, so it opens without a network.

    `source` says where the records are. It and the heaviest keys are text, not HTML.
    """
    change = "How many of the heaviest keys change from one tenth of the stream to the next."
    cards = [
        (Section("curve", "Share of the records by rank of the key", "", _FAIR), skew_curve),
        (Section("keys", "The heaviest keys", "Point at a bar for its key."), heaviest_bars),
        (Section("drift", "Drift", change), drift_bars),
        (Section("fullest", "Predicted load of the fullest worker", "", _FAIR), fullest_bars),
        (Section("both", "Balance against replicas", "Lower left is best.", is_wide=True), both),
    ]
    drawn = [(section, draw(report)) for section, draw in cards]
    write_document(document("skewless: keys", _said(report, source), drawn), path)


def skew_curve(report: Report) -> Any:
    """Return the share of the heaviest keys by rank, both on logarithmic axes."""
    log = {"x_axis_type": "log", "y_axis_type": "log", "y_range": DataRange1d()}
    plot = canvas("curve", "rank of the key", "share of the records", **log)
    ranks, shares = ([point[i] for point in report["curve"]] for i in (0, 1))
    source = ColumnDataSource({"rank": ranks, "share": shares})
    dots = add_line(plot, source, "rank", "share", BLUE)
    add_level(plot, 1 / report["n_workers"])
    add_tips(plot, [("rank", "@rank"), ("share", "@share{0.0000%}")], [dots])
    return plot


def heaviest_bars(report: Report) -> Any:
    """Return a bar for each of the heaviest keys, with the name of the key."""
    shares = [share for _, share in report["top_keys"]][:_LISTED]
    keys = report["top_key_texts"][: len(shares)]
    source = ColumnDataSource({"place": list(range(len(shares))), "share": shares, "key": keys})
    plot = canvas("keys", "keys, the heaviest first", "share of the records")
    bars = add_bars(plot, source, "place", "share", BLUE)
    add_tips(plot, [("key", "@key"), ("share", "@share{0.00%}")], [bars])
    return plot


def drift_bars(report: Report) -> Any:
    """Describe the drift of the heaviest keys from one tenth of the stream to the next."""
    drifts = list(report["drifts"])
    source = ColumnDataSource({"tenth": [2 + n for n in range(len(drifts))], "drift": drifts})
    plot = canvas("drift", "tenth of the stream", "0: none, 1: all", y_range=(0.0, 1.0))
    add_bars(plot, source, "tenth", "drift", BLUE)
    return plot


def fullest_bars(report: Report) -> Any:
    """Return the load of the fullest worker under each strategy, in units of its fair share."""
    source = _predicted(report)
    names = source.data["strategy"]
    plot = canvas("fullest", "strategy", "load, 1 = fair share", x_range=names)
    add_bars(plot, source, "strategy", "fullest", BLUE)
    add_level(plot, 1.0)
    plot.xaxis.major_label_orientation = 0.8
    return plot


def both(report: Report) -> Any:
    """Return all strategies as points: load of the fullest worker, and workers per key."""
    source, wide = _predicted(report), DataRange1d(range_padding=0.12)
    axes = ("load of the fullest worker, 1 = fair share", "workers per key")
    plot = canvas("both", *axes, height=360, x_range=wide, y_range=DataRange1d(range_padding=0.12))
    dots = plot.scatter("fullest", "replicas", size=10, color=BLUE, source=source)
    place = {"x": "fullest", "y": "replicas", "text": "strategy", "x_offset": 7, "y_offset": 4}
    plot.add_layout(LabelSet(**place, text_font_size="12px", text_color=GREY, source=source))
    tips = [("strategy", "@strategy"), ("fullest", "@fullest"), ("workers per key", "@replicas")]
    add_tips(plot, tips, [dots], across=False)
    return plot


def _predicted(report: Report) -> Any:
    rows = report["predictions"]
    names, replicas = ([row[name] for row in rows] for name in ("strategy", "replication"))
    fullest = [1.0 + row["imbalance"] for row in rows]
    return ColumnDataSource({"strategy": names, "fullest": fullest, "replicas": replicas})


def _said(report: Report, source: str) -> str:
    lines = [
        f"<h1>skewless: the keys of {escape(source)}</h1>",
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
