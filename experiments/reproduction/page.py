"""One self-contained page: the figures of the papers, our curves beside the published points."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure as Picture

from benchmarks.pictures import HIGHLIGHT, STRONG, STYLE
from experiments.reproduction.results import Result
from skewless.plumbing.private_files import write_private
from skewless.plumbing.text_tables import significant

_COLOURS = ("#4488cc", "#229944", "#aa55bb", "#bb8800", "#22aabb", "#ee6699", "#888888")
_UNEVEN = 4.0  # of two steps on the x axis: with more, the axis is logarithmic
_CSS = """
body { margin: 0 auto; padding: 0 1rem; max-width: 70rem; font: 16px/1.5 system-ui, sans-serif; }
article { border-top: 1px solid #dcdfe3; padding: 1rem 0; } svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .2rem .6rem .2rem 0; }
"""


def write_page(results: Sequence[Result], about: str, path: Path) -> None:
    """Write the page, with mode 0600. All texts of figures are text, not HTML."""
    contents = "".join(
        f"<li><a href='#{one['name']}'>{one['name']}</a> {escape(one['title'])}: {one['verdict']}"
        for one in results
    )
    write_private(
        path,
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>The papers’ figures, reproduced</title><style>{_CSS}</style></head><body>"
        f"<h1>The papers’ figures, reproduced</h1><p>{escape(about)} Lines are ours. Hollow "
        f"diamonds are what the authors published.</p><ul>{contents}</ul>\n"
        + "\n".join(map(_article, results))
        + "</body></html>\n",
    )


def _article(one: Result) -> str:
    fitted = f" ({escape(one['fitted'])})" if "fitted" in one else ""
    title = f"{one['name']}, {escape(one['title'])}: {one['verdict']}{fitted}"
    parts = [f"<article id='{one['name']}'><h2>{title}</h2>"]
    parts += [_drawn(plot) for plot in one["plots"]]
    parts += [_claims(one["claims"]), f"<p>Streams: {escape(one['data'])}</p>"]
    if "error" in one:
        parts.append(f"<p>It failed: <code>{escape(one['error'])}</code></p>")
    if "why" in one:
        parts += [f"<p>Why not: {escape(one['why'] or 'not known')}</p>", _claims(one["evidence"])]
    return "\n".join([*parts, "</article>"])


def _claims(claims: Iterable[Mapping[str, Any]]) -> str:
    rows = "".join(
        f"<tr><td>{escape(claim['says'])} ({escape(claim['place'])})</td>"
        f"<td>{escape(claim['expected'])}</td><td>{significant(claim['ours'])}</td>"
        f"<td>{claim['verdict']}</td></tr>"
        for claim in claims
    )
    return f"<table><tr><th>claim<th>expected<th>ours<th>verdict</tr>{rows}</table>"


def _drawn(plot: Mapping[str, Any]) -> str:
    """Return a plot as SVG."""
    with matplotlib.rc_context(STYLE):
        picture = Picture(figsize=(7.0, 3.2), layout="constrained")
        panel = picture.subplots()
        names = dict.fromkeys([*plot["curves"], *plot["published"]])
        colours = dict(zip(names, cycle(_COLOURS)))
        colours |= {name: STRONG for name in colours if HIGHLIGHT in name.lower()}
        both = (*plot["curves"].values(), *plot["published"].values())
        points = [point for curve in both for point in curve]
        texts = any(isinstance(x, str) for x, _ in points)
        for kind, look in (("curves", "o-"), ("published", "D")):
            for name, curve in plot[kind].items():
                shown = [(str(x) if texts else x, y) for x, y in curve if math.isfinite(y)]
                across, values = [x for x, _ in shown], [y for _, y in shown]
                fill = colours[name] if kind == "curves" else "none"
                label = name if kind == "curves" else f"{name}, published"
                panel.plot(
                    across, values, look, color=colours[name], markerfacecolor=fill, label=label
                )
        places = [] if texts else sorted({x for x, _ in points})
        steps = [b - a for a, b in pairwise(places)]
        if len(steps) > 1 and places[0] > 0 and max(steps) > _UNEVEN * min(steps):
            panel.set_xscale("log")
        if plot["log_y"]:
            panel.set_yscale("log")
        panel.set_xlabel(plot["x"])
        panel.set_ylabel(plot["y"])
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
        text = io.StringIO()
        picture.savefig(text, format="svg", metadata={"Date": None})
    return "<svg" + text.getvalue().partition("<svg")[2]
