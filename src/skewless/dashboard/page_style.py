"""The look that pages share: a frame of HTML, light and dark, for wide and narrow screens."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from bokeh.core.templates import get_env
from bokeh.document import Document
from bokeh.embed import file_html
from bokeh.resources import Resources

from skewless.plumbing.private_files import write_private

#: Distinguishable with colour-vision deficiencies, on white and on black.
BLUE, ORANGE, GREEN = "#4b8bd4", "#e07b39", "#2f9e77"
VIOLET, RED, GREY = "#9a6dd0", "#d9534f", "#8b919b"

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


_HERE = Path(__file__).parent
TEXT_STYLE = (_HERE / "texts.css").read_text(encoding="utf-8")


def frame(
    doc: Document,
    title: str,
    heading: str,
    cards: Sequence[tuple[Section, Any]],
    above: Sequence[Any] = (),
    foot: str = "",
) -> Document:
    """Give a document its page, and return it; `heading` is HTML, everything else is text.

    `above` are the roots above the cards; each card is a section and its root.
    """
    for root in (*above, *(root for _, root in cards)):
        doc.add_root(root)
    doc.title = title
    doc.template = get_env().from_string((_HERE / "page.html").read_text(encoding="utf-8"))
    doc.template_variables.update(
        policy=POLICY,
        style=(_HERE / "page.css").read_text(encoding="utf-8"),
        script=(_HERE / "page.js").read_text(encoding="utf-8"),
        heading=heading,
        above=[root.name for root in above],
        sections=[section for section, _ in cards],
        mark=_mark,
        foot=foot,
    )
    return doc


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
    kind = "sign" if sign.kind == "line" else f"sign {sign.kind}"
    field = "border-color" if sign.kind in ("line", "dashed") else "background"
    return (
        f"<li><span class='{kind}' style='{field}: {escape(sign.colour)}'></span>"
        f"{escape(sign.text)}</li>"
    )
