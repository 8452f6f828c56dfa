"""The look that pages share: a frame of HTML, light and dark, for wide and narrow screens."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from bokeh.core.templates import get_env
from bokeh.document import Document
from bokeh.embed import file_html
from bokeh.resources import Resources

from skewless.plumbing.private_files import write_private

#: Distinguishable with colour-vision deficiencies, on white and on black.
BLUE, ORANGE, GREEN, VIOLET, RED, GREY = (
    "#4b8bd4",
    "#e07b39",
    "#2f9e77",
    "#9a6dd0",
    "#d9534f",
    "#8b919b",
)
COLOURS = (BLUE, ORANGE, GREEN, VIOLET, "#c9a227", "#35a7b8")

#: A browser refuses whatever does not come from the page or its server.
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "connect-src 'self'; img-src 'self' data:; font-src 'self' data:; base-uri 'none'; "
    "form-action 'none'"
)


class Sign(NamedTuple):
    """One entry of a legend: a line, a dashed line, a box, or a ramp of colours."""

    text: str
    colour: str = ""
    kind: str = "line"


class Section(NamedTuple):
    """A card of the page: a root of the document, its heading, what it says, and its legend."""

    root: str
    title: str
    about: str
    legend: tuple[Sign, ...] = ()
    is_wide: bool = False


_COLOURS = """
:root { --back: #f4f5f7; --card: #ffffff; --ink: #1c1f24; --pale: #5d636d; --line: #dfe2e7;
  --soft: #eef1f5; --good: #1a7f4b; --bad: #c0392b; --accent: #2f6fbf; }
@media (prefers-color-scheme: dark) {
  :root { --back: #111317; --card: #1a1d22; --ink: #e8eaee; --pale: #a3a9b4; --line: #33383f;
    --soft: #24282f; --good: #5cc98a; --bad: #ff8577; --accent: #7db4f5; } }
"""

_FRAME = """
html { color-scheme: light dark; }
html, body { height: auto; }
body { background: var(--back); color: var(--ink);
  font: 15px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
.page { box-sizing: border-box; margin: 0 auto; max-width: 82rem; padding: 1.25rem 1.25rem 3rem; }
.page * { box-sizing: border-box; }
header h1 { font-size: 1.45rem; letter-spacing: -.01em; line-height: 1.2; margin: 0 0 .25rem; }
header p { color: var(--pale); margin: 0 0 .35rem; max-width: 62rem; overflow-wrap: anywhere; }
.cards { display: grid; gap: 1rem; grid-template-columns: repeat(2, minmax(0, 1fr));
  margin-top: 1rem; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .75rem;
  min-width: 0; padding: .9rem 1rem .6rem; }
.wide { grid-column: 1 / -1; }
.card h2 { font-size: 1rem; font-weight: 650; line-height: 1.3; margin: 0; }
.card > p { color: var(--pale); font-size: .85rem; margin: .1rem 0 .35rem; }
.legend { display: flex; flex-wrap: wrap; font-size: .8rem; gap: .1rem 1rem; list-style: none;
  margin: 0 0 .3rem; padding: 0; color: var(--pale); }
.legend li { align-items: center; display: flex; gap: .4rem; }
.sign { display: inline-block; flex: none; height: 0; width: 1.4rem; border-top: 3px solid; }
.sign.dashed { border-top-style: dashed; border-top-width: 2px; }
.sign.box { border: 0; border-radius: 2px; height: .75rem; width: .75rem; }
.sign.ramp { border: 1px solid var(--line); border-radius: 3px; height: .7rem; width: 7rem; }
footer { color: var(--pale); font-size: .8rem; margin-top: 1.25rem; }
@media (max-width: 48rem) {
  .page { padding: .9rem .7rem 2rem; }
  .cards { gap: .7rem; grid-template-columns: minmax(0, 1fr); }
  .card { padding: .75rem .7rem .4rem; } }
"""

#: For the roots that are texts: the page's own style does not reach into their shadow trees.
TEXT_STYLE = """
:host { width: 100%; color: var(--ink); font: inherit; }
.bk-clearfix { width: 100%; }
.tiles { display: grid; gap: .7rem; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: .75rem;
  padding: .6rem .8rem; }
.tile b { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums; font-weight: 650;
  line-height: 1.25; overflow-wrap: anywhere; }
.tile span { color: var(--pale); font-size: .8rem; }
.tile.bad b { color: var(--bad); } .tile.good b { color: var(--good); }
.note { color: var(--pale); margin: 0 0 .6rem; overflow-wrap: anywhere; }
.note.bad { color: var(--bad); } .note.good { color: var(--good); }
table { border-collapse: collapse; font-size: .88rem; width: 100%; }
th { color: var(--pale); font-weight: 600; text-align: left; }
th, td { border-bottom: 1px solid var(--line); padding: .35rem .6rem .35rem 0;
  vertical-align: top; }
tr:last-child td { border-bottom: 0; }
td.number, th.number { font-variant-numeric: tabular-nums; text-align: right; }
td.number { white-space: nowrap; } th { vertical-align: bottom; }
td.key { font-weight: 600; overflow-wrap: anywhere; }
.bar { background: var(--soft); border-radius: 3px; display: block; height: .5rem;
  margin-top: .45rem; min-width: 3rem; }
.bar i { background: var(--accent); border-radius: 3px; display: block; height: 100%; }
.places { color: var(--pale); } .places b { color: var(--ink); font-weight: 600; }
@media (max-width: 48rem) {
  .tiles { gap: .5rem; grid-template-columns: repeat(2, minmax(0, 1fr)); }
  .tile { padding: .5rem .65rem; } .tile b { font-size: 1.15rem; }
  table { font-size: .8rem; } th, td { padding: .3rem .35rem .3rem 0; }
  .optional { display: none; } }
"""

# Bokeh draws on a canvas, which style sheets do not reach. `sync: false` keeps the colours of this
# screen from being sent to the server. When the server learns what kind of query it shows, the
# page has other cards, so it is loaded again.
_SCRIPT = """
(function () {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const roles = {
    axis_label_text_color: "--pale", major_label_text_color: "--pale", axis_line_color: "--line",
    major_tick_line_color: "--line", grid_line_color: "--line", outline_line_color: "--line",
    title_text_color: "--ink"
  };
  function dress(doc) {
    const style = getComputedStyle(document.documentElement);
    for (const model of doc.all_models) {
      const values = {};
      for (const [name, variable] of Object.entries(roles)) {
        if (name in model.properties && model[name] != null) {
          values[name] = style.getPropertyValue(variable).trim();
        }
      }
      if (Object.keys(values).length) model.setv(values, { sync: false });
    }
    document.documentElement.dataset.dressed = dark.matches ? "dark" : "light";
  }
  function begin() {
    const doc = window.Bokeh && Bokeh.documents.find(function (one) { return one.roots().length; });
    if (!doc) { window.setTimeout(begin, 40); return; }
    dress(doc);
    dark.addEventListener("change", function () { dress(doc); });
    const status = doc.get_model_by_name("status");
    if (status) status.properties.tags.change.connect(function () { window.location.reload(); });
  }
  begin();
})();
"""

_TEMPLATE = """
{% extends base %}
{% from macros import embed %}
{% block preamble %}
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta http-equiv="Content-Security-Policy" content="{{ policy }}">
<link rel="icon" href="data:,">
{% endblock %}
{% block postamble %}<style>{{ style }}</style>{% endblock %}
{% block contents %}
<div class="page">
<header>{{ heading }}</header>
{% for root in above %}{{ embed(roots[root]) }}
{% endfor %}
<main class="cards">
{% for section in sections %}
<section class="card{% if section.is_wide %} wide{% endif %}" id="{{ section.root }}">
<h2>{{ section.title | e }}</h2>
{% if section.about %}<p>{{ section.about | e }}</p>{% endif %}
{% if section.legend %}<ul class="legend">
{% for sign in section.legend %}{{ mark(sign) }}{% endfor %}
</ul>{% endif %}
{{ embed(roots[section.root]) }}
</section>
{% endfor %}
</main>
{% if foot %}<footer>{{ foot | e }}</footer>{% endif %}
</div>
<script>{{ script }}</script>
{% endblock %}
"""


def frame(
    doc: Document,
    title: str,
    heading: str,
    above: Sequence[str],
    sections: Sequence[Section],
    foot: str = "",
) -> None:
    """Give a document its page; `heading` is HTML, everything else is text.

    `above` names the roots above the cards; each section has its own root.
    """
    doc.title = title
    doc.template = get_env().from_string(_TEMPLATE)
    doc.template_variables.update(
        policy=POLICY,
        style=_COLOURS + _FRAME,
        script=_SCRIPT,
        heading=heading,
        above=list(above),
        sections=list(sections),
        mark=_mark,
        foot=foot,
    )


def write_document(doc: Document, path: Path) -> None:
    """Write a page, with mode 0600; its JavaScript is inside, so it opens without a network."""
    html = file_html(
        doc,
        Resources(mode="inline"),
        title=doc.title,
        template=doc.template,
        template_variables=doc.template_variables,
    )
    write_private(path, html)


def _mark(sign: Sign) -> str:
    """Return an entry of a legend as HTML."""
    names = {"line": "sign", "dashed": "sign dashed", "box": "sign box", "ramp": "sign ramp"}
    field = "border-color" if sign.kind in ("line", "dashed") else "background"
    return (
        f"<li><span class='{names[sign.kind]}' style='{field}: {escape(sign.colour)}'></span>"
        f"{escape(sign.text)}</li>"
    )
