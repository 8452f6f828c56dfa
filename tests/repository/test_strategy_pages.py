"""The examples on the pages of the strategies show what the strategies do."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from reference.cascade.cascade import CascadeReference
from skewless import registry

PAGES = Path(__file__).parents[2] / "docs" / "strategies"
EXAMPLE = re.compile(r"```pycon\n(.*?)```", re.DOTALL)
WITH_EXAMPLES = ("cascade", "cascade-ahead", "dalton", "fish", "mixed", "pd-stream", "pstream")


def examples(page: str) -> str:
    """Return all examples of a page, one after the other, as one session."""
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    return "\n".join(EXAMPLE.findall(text))


@pytest.mark.parametrize("page", WITH_EXAMPLES)
def test_a_page_shows_what_its_strategy_does(page: str) -> None:
    session = doctest.DocTestParser().get_doctest(examples(page), {}, page, f"{page}.md", 0)
    said: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(session, out=said.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(said)


def test_every_page_with_an_example_is_run() -> None:
    shown = {path.stem for path in PAGES.glob("*.md") if EXAMPLE.search(path.read_text("utf-8"))}
    assert shown == set(WITH_EXAMPLES)


@pytest.mark.parametrize("name", registry.names())
def test_every_strategy_has_its_page_and_its_picture(name: str) -> None:
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert f"(../pictures/strategies/{name}.svg)" in page
    picture = PAGES.parent / "pictures" / "strategies" / f"{name}.svg"
    assert f">{name}</text>" in picture.read_text(encoding="utf-8")  # in its legend


def test_the_table_of_cascade_is_what_its_oracle_does() -> None:
    text = (PAGES / "cascade.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:6]] for line in text.splitlines()]
    shown = [row for row in rows if len(row) == 5 and row[0].isdigit()]
    source = CascadeReference(4, seed=0, tolerance=0.003)
    for key in (1, 2, 1, 3, 1, 4, 1, 5, 1, 6, 1, 7, 1, 8, 1, 9):
        source.route_one(key)
    for number, (record, key, levels, mean, worker) in enumerate(shown, start=17):
        assert int(record) == number
        assert [float(level) for level in levels.split()] == source.levels
        assert float(mean) == source.level
        assert source.route_one(int(key)) == int(worker)
    assert len(shown) == 12
