"""The pages of `skewless diagnose`, self-contained and from plain data.

One is about the keys of a stream: skew, and what helps. The other is about a replayed
application: when each stage ran.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from bokeh.document import Document
from bokeh.models import ColumnDataSource, LogTicker, NumeralTickFormatter, Range1d

from skewless.dashboard import figures
from skewless.dashboard.page_style import (
    BLUE,
    GREY,
    RED,
    Section,
    Sign,
    frame,
    write_document,
)

#: A report of `skewless diagnose` as plain data: see `KeyReport.as_dict`.
Report = Mapping[str, Any]
#: A replay as plain data: see `WhatIf.as_dict`.
Replayed = Mapping[str, Any]

_LISTED = 20
_MOST_STAGES = 200
_FAIR = (Sign("fair share of a worker", GREY, "dashed"),)


def write_key_page(report: Report, source: str, path: Path) -> None:
    """Write the page, with mode 0600; its JavaScript is inside, so it opens without a network.

    `source` says where the records are. It and the heaviest keys are text, not HTML.
    """
    roots = (ways_table, skew_curve, heaviest_bars)
    basis = "Predicted from all records. Few workers per key and a load near 1 are best."
    if report["n_simulated"] < report["n_records"]:
        basis = f"Predicted from the first {report['n_simulated']:,} records."
    sections = (
        Section("ways", "What each way of partitioning would do", basis, is_wide=True),
        Section("curve", "Share of the records by rank of the key", "Logarithmic axes.", _FAIR),
        Section("heaviest", "The heaviest keys", "Point at a bar for its key.", _FAIR),
    )
    cards = [(card, root(report)) for card, root in zip(sections, roots, strict=True)]
    doc = frame(Document(), "skewless: keys", _heading(report, source), cards)
    write_document(doc, path)


def skew_curve(report: Report) -> Any:
    """Return the share of the heaviest keys by rank, both on logarithmic axes."""
    fair = 1 / report["n_workers"]
    shares = [share for _, share in report["curve"]]
    seen = [fair, *(share for share in shares if share > 0)]  # the level is inside the axis
    inside = Range1d(min(seen) / 1.5, max(seen) * 1.5)
    axes: dict[str, Any] = {"x_axis_type": "log", "y_axis_type": "log", "y_range": inside}
    plot = figures.canvas("curve", "rank of the key", "share of the records", **axes)
    plot.xaxis.ticker = LogTicker()
    plot.yaxis.formatter = NumeralTickFormatter(format="0.[0000]%")
    source = ColumnDataSource({"rank": [rank for rank, _ in report["curve"]], "share": shares})
    dots = figures.add_line(plot, source, "rank", "share", BLUE)
    figures.add_level(plot, fair)
    figures.add_tips(plot, [("rank", "@rank"), ("share", "@share{0.0000%}")], [dots])
    return plot


def heaviest_bars(report: Report) -> Any:
    """Return a bar for each of the heaviest keys, with the name of the key."""
    shares = [share for _, share in report["top_keys"]][:_LISTED]
    keys = report["top_key_texts"][: len(shares)]
    fair = 1 / report["n_workers"]
    heights = (0.0, 1.08 * max([fair, *shares]))
    titles = "rank of the key", "share of the records"
    plot = figures.canvas("heaviest", *titles, y_range=heights)
    columns = {"rank": list(range(1, len(shares) + 1)), "share": shares, "key": keys}
    bars = figures.add_bars(plot, ColumnDataSource(columns), "rank", "share", BLUE)
    figures.add_level(plot, fair)
    figures.add_tips(plot, [("key", "@key"), ("share", "@share{0.00%}")], [bars])
    figures.short_numbers(plot.yaxis, "0.[00]%")
    return plot


def ways_table(report: Report) -> Any:
    """Return the predictions as a table: points in a plot would hide each other's names."""
    loads = [1.0 + one["imbalance"] for one in report["predictions"]]
    rows = "".join(
        f"<tr><td class='key'>{escape(one['strategy'])}</td><td class='number'>{load:.2f}</td>"
        f"<td><span class='bar'><i style='width:{100 * load / max(loads):.1f}%'></i></span></td>"
        f"<td class='number'>{one['replication']:.3f}</td></tr>"
        for load, one in zip(loads, report["predictions"], strict=True)
    )
    heads = "<th class='number'>the fullest worker, 1 = fair share</th><th></th>"
    heads += "<th class='number'>workers per key</th>"
    return figures.text_root("ways", f"<table><tr><th>way</th>{heads}</tr>{rows}</table>")


def _heading(report: Report, source: str) -> str:
    # Advice names functions between backticks.
    advice = re.sub("`([^`]+)`", r"<code>\1</code>", escape(report["advice"]))
    return (
        f"<h1>skewless: the keys of {escape(source)}</h1>"
        f"<p>{report['n_records']:,} records, {report['n_keys']:,} keys, "
        f"{report['n_workers']} workers; {report['n_above_fair_share']} keys above the fair share "
        f"of one worker; drift {report['drift']:.2f} (0: the heavy keys stay the same, 1: all "
        f"change).</p><p><b>{advice}</b></p>"
    )


def write_replay_page(replays: Sequence[Replayed], name: str, path: Path) -> None:
    """Write the page, with mode 0600; its JavaScript is inside, so it opens without a network.

    `name` is that of the application: text, not HTML. All timelines have the same scale.
    """
    longest = 1.02 * max(0.001, *(one["seconds"] for one in replays))
    legend = Sign("stage", BLUE, "box"), Sign("with a straggler", RED, "box")
    cards = []
    heading = f"<h1>skewless: {escape(name)}, replayed</h1>"
    for one in replays:
        root, title = f"slots-{one['slots']}", f"{one['slots']} slots: {one['seconds']:.1f} s"
        section = Section(root, title, "From submission to end.", legend, is_wide=True)
        cards.append((section, timeline(one, longest, root)))
        measured = one.get("measured_seconds")
        logged = "" if measured is None else f"; the log has {measured:.1f} s"
        heading += (
            f"<p>{one['slots']} slots: {one['seconds']:.1f} s{logged}; without stragglers "
            f"{one['balanced_seconds']:.1f} s.</p>"
        )
    write_document(frame(Document(), "skewless: replay", heading, cards), path)


def timeline(replay: Replayed, longest: float, root: str) -> Any:
    """Return a bar for each stage from its beginning to its end, the first one on top."""
    stages = sorted(replay["stages"], key=lambda stage: -stage["seconds"])[:_MOST_STAGES]
    stages.sort(key=lambda stage: (stage["begin"], stage["stage"]))
    names = [f"{stage['stage']}.{stage['attempt']}" for stage in stages]
    columns = {
        "stage": names,
        "end": [stage["begin"] + stage["seconds"] for stage in stages],
        "colour": [BLUE if stage["balanced_seconds"] is None else RED for stage in stages],
        **{
            column: [stage[column] for stage in stages]
            for column in ("begin", "seconds", "tasks", "what")
        },
    }
    plot = figures.canvas(
        root,
        "seconds from the beginning of the first job",
        "stage",
        height=90 + 14 * max(4, len(stages)),
        x_range=(0.0, longest),
        y_range=names[::-1],
    )
    bars = plot.hbar(
        *("stage", 0.8, "begin", "end"), color="colour", source=ColumnDataSource(columns)
    )
    tips = [("stage", "@stage"), ("", "@what"), ("tasks", "@tasks"), ("seconds", "@seconds{0.00}")]
    figures.add_tips(plot, tips, [bars], across=False)
    return plot
