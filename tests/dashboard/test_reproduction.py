"""The page about the papers' figures: whole, readable without a network, on any screen."""

from __future__ import annotations

import json
import os
import re
import stat
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("bokeh", reason="the page is drawn by Bokeh")

from bokeh.document import Document

from skewless.dashboard.reproduction import reproduction_page, write_reproduction
from skewless.dashboard.reproduction_plots import GRID, INK, draw, is_empty, looks, plot_item

PAPERS = {"dalton": "Dalton", "fish": "FISH", "mixed": "Mixed"}
VOID = {"meta", "br"}


def plot(**changes: Any) -> dict[str, Any]:
    return {
        "x": "workers",
        "y": "imbalance <b>",
        "log_y": False,
        "curves": {"fish": [[16, 1.0], [64, None], [128, 3.0]], "cascade": [[16, 0.5]]},
        "published": {"fish": [[16, 1.2]], "only theirs": [[128, 9.0]]},
        **changes,
    }


def claim(verdict: str = "reproduced", **changes: Any) -> dict[str, Any]:
    return {
        "says": "fish < pkg",
        "place": "section 6",
        "ours": 1.23456,
        "published": 1.2,
        "counts": "value",
        "expected": "1.2",
        "verdict": verdict,
        **changes,
    }


def figure(paper: str, number: str, verdict: str = "reproduced", **changes: Any) -> dict[str, Any]:
    return {
        "paper": paper,
        "figure": number,
        "name": f"{paper}/{number.replace(' ', '-')}",
        "title": "load & <i>balance</i>",
        "verdict": verdict,
        "claims": [claim()],
        "plots": [plot(), plot(log_y=True)],
        "data": "Zipf",
        "evidence": [],
        **changes,
    }


FIGURES = [
    figure("fish", "9"),
    figure("fish", "10c", "direction only", plots=[]),
    figure(
        "dalton",
        "table II",
        "not reproduced",
        claims=[
            claim("not reproduced", counts="direction", published=None, expected="> 1", ours=None)
        ],
        why="because </script>",
        evidence=[claim()],
    ),
    figure("dalton", "7", "failed", claims=[], plots=[], error="KeyError: 'x'"),
]


class Page(HTMLParser):
    """Collects what a test asks for, and refuses elements that are not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.loads: list[str] = []
        self.scripts: dict[str, str] = {}
        self.policy = ""
        self.text = ""
        self._id: str | None = None
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag not in VOID:
            self.open.append(tag)
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"]
        if "id" in values:
            self.ids.append(values["id"])
        if "href" in values:
            self.targets.append(values["href"])
        if "src" in values or tag in ("link", "iframe", "img"):
            self.loads.append(tag)
        self._id = values.get("id") if tag == "script" else None

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self._id = None

    def handle_data(self, data: str) -> None:
        if self._id is not None:
            self.scripts[self._id] = data
        elif self.open and self.open[-1] not in ("script", "style"):
            self.text += data


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(reproduction_page(FIGURES, PAPERS, "small & quick"))


def test_the_page_is_whole_and_every_link_leads_somewhere(page: Page) -> None:
    assert len(page.ids) == len(set(page.ids))
    assert {"#fish", "#dalton", "#fish-9", "#dalton-table-II"} <= set(page.targets)
    assert all(target[1:] in page.ids for target in page.targets)
    assert "mixed" not in page.ids  # a paper without figures


def test_nothing_is_loaded_from_outside(page: Page) -> None:
    assert page.loads == []
    assert "default-src 'none'" in page.policy  # Bokeh can load more, if a text asks for it
    text = reproduction_page(FIGURES, PAPERS, "")
    assert not re.search(r"@import|url\(", re.findall(r"<style>(.*?)</style>", text, re.DOTALL)[0])


def test_texts_are_text_and_not_html(page: Page) -> None:
    for text in ("load & <i>balance</i>", "fish < pkg", "because </script>", "small & quick"):
        assert text in page.text


def test_figures_stand_by_paper_with_claims_and_verdicts(page: Page) -> None:
    assert page.text.index("Dalton") < page.text.index("FISH")
    for text in ("✓ reproduced", "≈ direction only", "✗ not reproduced", "! failed"):
        assert text in page.text
    for text in ("1.23", "> 1", "–", "KeyError: 'x'", "Why not:", "Streams:", "Table II:"):
        assert text in page.text


def test_the_page_fits_narrow_and_dark_screens() -> None:
    text = reproduction_page(FIGURES, PAPERS, "")
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert text.count("prefers-color-scheme: dark") == 2  # of the page, and of its plots


def test_every_plot_has_an_item_that_bokeh_can_read(page: Page) -> None:
    places = [name for name in page.ids if re.search(r"-plot-\d+$", name)]
    assert len(places) == 4
    for place in places:
        item = json.loads(page.scripts[f"{place}-item"])
        document = Document.from_json(item["doc"])
        assert document.roots[0].id == item["root_id"]


def test_colours_of_the_screen_reach_text_and_grid() -> None:
    text = json.dumps(plot_item(plot()))
    assert INK in text
    assert GRID in text
    script = reproduction_page(FIGURES, PAPERS, "").rpartition("<script>")[2]
    assert f'replaceAll("{INK}"' in script
    assert f'replaceAll("{GRID}"' in script


def test_ours_are_lines_and_published_points_are_hollow_markers() -> None:
    canvas = draw(plot())
    kinds = [type(renderer.glyph).__name__ for renderer in canvas.renderers]
    assert kinds == ["Line", "Scatter", "Line", "Scatter", "Scatter", "Scatter"]
    published = canvas.renderers[4].glyph
    assert (published.marker, published.fill_alpha) == ("diamond", 0.0)
    assert published.line_color == canvas.renderers[0].glyph.line_color  # of the same curve
    assert canvas.xaxis.axis_label == "workers"
    assert canvas.yaxis.axis_label == "imbalance <b>"
    title = draw(plot(y="state moved / held (and of cascade: replicas beyond one per key)"))
    assert title.yaxis.axis_label.count("\n") == 1  # a longer one would be cut
    assert canvas.legend == []  # it stands below the plot, not on the data


def test_categories_have_no_line_and_keep_their_order() -> None:
    canvas = draw(plot(curves={"a": [["WP", 1.0], [5, 2.0]], "b": [["MT", 3.0]]}, published={}))
    assert canvas.x_range.factors == ["WP", "5", "MT"]
    assert [type(renderer.glyph).__name__ for renderer in canvas.renderers] == ["Scatter"] * 2


@pytest.mark.parametrize(
    ("across", "is_log"),
    [([16, 32, 64, 128], False), ([4, 16, 64, 256], True), ([0, 1, 100], False), ([3], False)],
)
def test_numbers_that_get_further_apart_have_a_logarithmic_axis(
    across: list[int], is_log: bool
) -> None:
    canvas = draw(plot(curves={"a": [[x, 1.0] for x in across]}, published={}))
    assert (type(canvas.x_scale).__name__ == "LogScale") == is_log
    assert list(canvas.xaxis.ticker.ticks) == across  # a tick at each number that was measured


def test_nothing_leaves_a_logarithmic_axis() -> None:
    canvas = draw(plot(log_y=True, curves={"a": [[1, 0.0], [2, -1.0], [3, 8.0]]}, published={}))
    (data,) = {id(r.data_source): r.data_source.data for r in canvas.renderers}.values()
    assert data["y"] == [4.0, 4.0, 8.0]
    assert data["value"] == [0.0, -1.0, 8.0]  # what the hovering pointer tells


def test_no_two_of_many_curves_look_alike_and_cascade_stands_out() -> None:
    names = [f"strategy {n}" for n in range(20)] + ["cascade", "cascade-ahead"]
    found = looks(plot(curves={name: [] for name in names}, published={}))
    assert len({(look.colour, tuple(look.dash)) for look in found}) == len(names)
    assert min(look.width for look in found[-2:]) > max(look.width for look in found[:-2])


def test_a_plot_without_points_is_left_out() -> None:
    empty = plot(curves={"a": [[1, None]]}, published={})
    assert is_empty(empty)
    text = reproduction_page([figure("fish", "1", plots=[empty])], PAPERS, "")
    assert "class='plot'" not in text


def test_the_page_is_for_this_user_alone(tmp_path: Path) -> None:
    write_reproduction(FIGURES, PAPERS, "", tmp_path / "x.html")
    assert os.name == "nt" or stat.S_IMODE((tmp_path / "x.html").stat().st_mode) == 0o600
    with pytest.raises(ValueError, match="figures must not be empty"):
        write_reproduction([], PAPERS, "", tmp_path / "y.html")
