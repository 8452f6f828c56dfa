"""One self-contained page: the figures of the papers, our curves beside the published numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from bokeh.resources import Resources

from skewless.dashboard.reproduction_plots import GRID, INK, Look, is_empty, looks, plot_item
from skewless.dashboard.reproduction_style import SCRIPT, STYLE
from skewless.private.files import write_private
from skewless.rounding import significant

#: A figure: `paper`, `figure`, `name`, `title`, `verdict`, `claims`, `plots`, `data`, `evidence`;
#: `why` where a claim is missed, `error` where it failed.
Record = Mapping[str, Any]

#: A sign for each verdict, so that no verdict is shown by colour alone.
_SIGNS = {"reproduced": "✓", "direction only": "≈", "not reproduced": "✗", "failed": "!"}

#: A browser refuses whatever is not in the page itself.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "font-src data:"
)


def write_reproduction(
    figures: Sequence[Record], papers: Mapping[str, str], about: str, path: Path
) -> None:
    """Write the page, with mode 0600; its JavaScript is inside, so it opens without a network.

    `papers` has the names of the papers as people write them, in the order of the page. `about`
    says what was measured. All texts of figures are text, not HTML.
    """
    if not figures:
        raise ValueError("figures must not be empty")
    write_private(path, reproduction_page(figures, papers, about))


def reproduction_page(figures: Sequence[Record], papers: Mapping[str, str], about: str) -> str:
    """Return the page as text."""
    shown = {paper: [one for one in figures if one["paper"] == paper] for paper in papers}
    shown = {paper: own for paper, own in shown.items() if own}
    script = SCRIPT.replace("INK", INK).replace("GRID", GRID)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            "<title>skewless: the papers' figures, reproduced</title>",
            f"<style>{STYLE}</style>",
            Resources(mode="inline", components=["bokeh"]).render_js(),
            "</head><body>",
            "<header><h1>The papers’ figures, reproduced</h1>",
            f"<p>{escape(about)}</p>",
            "<p>Lines and dots are ours. Hollow diamonds are what the authors published.</p>",
            "</header>",
            _contents(shown, papers),
            "<main>",
            *(_paper(papers[paper], paper, own) for paper, own in shown.items()),
            "</main>",
            f"<script>{script}</script>",
            "</body></html>\n",
        ]
    )


def _contents(shown: Mapping[str, Sequence[Record]], papers: Mapping[str, str]) -> str:
    parts = ["<nav aria-label='Contents'>"]
    for paper, own in shown.items():
        counts = ", ".join(
            f"{number} {verdict}"
            for verdict in _SIGNS
            if (number := sum(one["verdict"] == verdict for one in own))
        )
        parts.append(
            f"<details open><summary><a href='#{escape(paper)}'>{escape(papers[paper])}</a>: "
            f"{counts}</summary><ul>"
        )
        parts += [
            f"<li>{_badge(one['verdict'], short=True)} "
            f"<a href='#{_anchor(one)}'>{escape(_titled(one))}</a></li>"
            for one in own
        ]
        parts.append("</ul></details>")
    return "\n".join([*parts, "</nav>"])


def _paper(name: str, paper: str, figures: Sequence[Record]) -> str:
    parts = "\n".join(_figure(one) for one in figures)
    return f"<section id='{escape(paper)}'><h2>{escape(name)}</h2>\n{parts}\n</section>"


def _figure(one: Record) -> str:
    plots = [plot for plot in one["plots"] if not is_empty(plot)]
    parts = [
        f"<article id='{_anchor(one)}'>",
        f"<h3>{escape(_titled(one))} {_badge(one['verdict'])}</h3>",
        "<div class='beside'><div class='plots'>",
        *(_plot(plot, f"{_anchor(one)}-plot-{number}") for number, plot in enumerate(plots)),
        "</div><div>",
    ]
    if one["claims"]:
        parts.append(_claims(one["claims"]))
    if one["data"]:
        parts.append(f"<p><b>Streams:</b> {escape(one['data'])}</p>")
    if one["verdict"] == "failed":
        parts.append(f"<p><b>It failed:</b> <code>{escape(one['error'])}</code></p>")
    if "why" in one:
        parts.append(f"<p><b>Why not:</b> {escape(one['why'] or 'not known')}</p>")
        if one["evidence"]:
            parts.append(_evidence(one["evidence"]))
    return "\n".join([*parts, "</div></div></article>"])


def _claims(claims: Sequence[Record]) -> str:
    rows = (
        (
            f"{escape(claim['says'])} <small>{escape(claim['place'])}</small>",
            escape(claim["expected"]),
            significant(claim["ours"]),
            _badge(claim["verdict"]),
        )
        for claim in claims
    )
    return _table(("claim", "paper’s", "ours", "verdict"), rows)


def _evidence(claims: Sequence[Record]) -> str:
    rows = (
        (
            escape(claim["says"]),
            escape(claim["expected"]),
            significant(claim["ours"]),
            "no" if claim["verdict"] == "not reproduced" else "yes",
        )
        for claim in claims
    )
    return _table(("experiment", "expected", "measured", "holds"), rows)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of HTML; on a narrow screen cells show their headings where needed."""
    head = "".join(f"<th>{heading}</th>" for heading in headings)
    speaking = ("claim", "experiment", "verdict")
    labels = ["" if name in speaking else f" data-label='{name}'" for name in headings]
    body = "".join(
        "<tr>"
        + "".join(f"<td{label}>{cell}</td>" for label, cell in zip(labels, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _plot(plot: Record, anchor: str) -> str:
    # In a script no sign ends the element except "<".
    item = json.dumps(plot_item(plot), allow_nan=False).replace("<", "\\u003c")
    label = escape(f"{plot['y']} by {plot['x']}", quote=True)
    published = set(plot["published"])
    legend = "".join(
        _legend(look, look.name in plot["curves"], look.name in published) for look in looks(plot)
    )
    return (
        f"<figure><div class='plot' id='{anchor}' role='img' aria-label=\"{label}\"></div>"
        f"<figcaption><ul class='legend'>{legend}</ul></figcaption>"
        f"<script type='application/json' id='{anchor}-item'>{item}</script></figure>"
    )


def _legend(look: Look, ours: bool, published: bool) -> str:
    dash = f" stroke-dasharray='{' '.join(map(str, look.dash))}'" if look.dash else ""
    line = (
        f"<path d='M0 7H24' stroke-width='{look.width}'{dash}/>"
        f"<circle cx='12' cy='7' r='3' fill='{look.colour}'/>"
    )
    middle = 35 if ours else 6
    diamond = f"<path d='M{middle} 1l5 6l-5 6l-5 -6Z' stroke-width='2'/>"
    sign = f"{line if ours else ''}{diamond if published else ''}"
    width = 26 * ours + 16 * published
    return (
        f"<li><svg width='{width}' height='14' fill='none' stroke='{look.colour}' "
        f"aria-hidden='true'>{sign}</svg> {escape(look.name)}</li>"
    )


def _titled(one: Record) -> str:
    number = str(one["figure"])
    name = f"Figure {number}" if number[0].isdigit() else number[0].upper() + number[1:]
    return f"{name}: {one['title']}"


def _anchor(one: Record) -> str:
    return escape("".join(sign if sign.isalnum() else "-" for sign in str(one["name"])))


def _badge(verdict: str, short: bool = False) -> str:
    kind = verdict.replace(" ", "-")
    text = f"<span class='unseen'>{verdict}</span>" if short else f" {verdict}"
    return f"<span class='badge {kind}'>{_SIGNS[verdict]}{text}</span>"
