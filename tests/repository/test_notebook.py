"""The notebook has the tutorial's text, programs and results, and nothing of a machine."""

from __future__ import annotations

import base64
import json
import socket
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from document_blocks import PROJECT, blocks
from repository.test_site import script

TUTORIAL = "docs/tutorial.md"


@pytest.fixture
def maker(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    # The script looks for the name of the machine that runs it, which may be a word of the page.
    monkeypatch.setattr(socket, "gethostname", lambda: "machine-7")
    return script("tutorial_notebook")


@pytest.fixture(scope="module")
def cells() -> list[dict[str, Any]]:
    notebook = json.loads((PROJECT / "docs" / "tutorial.ipynb").read_text(encoding="utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    found: list[dict[str, Any]] = notebook["cells"]
    assert len({cell["id"] for cell in found}) == len(found)
    return found


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def results(cell: dict[str, Any], kind: str) -> list[Any]:
    return [output for output in cell["outputs"] if output["output_type"] == kind]


def test_its_programs_are_those_of_the_tutorial_and_printed_what_it_says(
    cells: list[dict[str, Any]],
) -> None:
    programs = [cell for cell in cells if cell["cell_type"] == "code"]
    wanted = blocks(TUTORIAL)
    assert [source(cell) for cell in programs] == [block.program.rstrip() for block in wanted]
    assert [cell["execution_count"] for cell in programs] == [*range(1, len(wanted) + 1)]
    for cell, block in zip(programs, wanted, strict=True):
        printed = "".join(text for one in results(cell, "stream") for text in one["text"])
        assert block.output is None or printed == block.output, f"{TUTORIAL}, line {block.line}"


def test_its_text_is_that_of_the_tutorial(maker: ModuleType, cells: list[dict[str, Any]]) -> None:
    made = maker.cells_of((PROJECT / TUTORIAL).read_text(encoding="utf-8"))
    assert [source(cell) for cell in cells] == [source(cell) for cell, _ in made]


def test_its_pictures_are_those_of_the_tutorial(
    maker: ModuleType, cells: list[dict[str, Any]]
) -> None:
    made = maker.cells_of((PROJECT / TUTORIAL).read_text(encoding="utf-8"))
    linked = [(PROJECT / "docs" / name).read_bytes() for _, name in made if name]
    drawn = [
        base64.b64decode(output["data"]["image/png"])
        for cell in cells
        if cell["cell_type"] == "code"
        for output in results(cell, "display_data")
    ]
    assert drawn == linked
    assert len(drawn) >= 2


def test_it_names_no_path_and_no_host(maker: ModuleType, cells: list[dict[str, Any]]) -> None:
    assert maker.leaks({"cells": cells}) == []


@pytest.mark.parametrize(
    "text",
    ["/tmp/tutorial-1/orders", "file:/home/me/x", "10.0.0.7:4040", "on machine-7."],
)
def test_paths_and_hosts_are_found(maker: ModuleType, text: str) -> None:
    assert maker.leaks({"cells": [{"source": ["a\n", text]}]})
    assert maker.leaks({"cells": [{"source": [], "outputs": [{"text": ["a\n", text]}]}]})
    assert not maker.leaks({"cells": [{"source": ["see docs/a/b, or https://c.org/d/e/f"]}]})


def test_what_is_printed_and_drawn_goes_into_the_cell(maker: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    drawn = "from matplotlib import pyplot as plt\nfigure, _ = plt.subplots()\n"
    page.write_text(
        f"# A\n\n```python\nx = 1\n```\n\nB\n\n```python\nprint(x)\n```\n\n```text\n1\n```\n\n"
        f"```python\n{drawn}```\n\n![C](c.png)\n\nD\n",
        encoding="utf-8",
    )
    maker.write_notebook(page)
    cells = json.loads(page.with_suffix(".ipynb").read_text(encoding="utf-8"))["cells"]
    assert [source(cell) for cell in cells] == ["# A", "x = 1", "B", "print(x)", drawn[:-1], "D"]
    assert cells[1]["outputs"] == []
    assert results(cells[3], "stream")[0]["text"] == ["1\n"]
    [output] = cells[4]["outputs"]
    assert base64.b64decode(output["data"]["image/png"]) == (tmp_path / "c.png").read_bytes()


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("1 / 0", "division by zero"),
        ("print('/tmp/a/b')", "names a path or a host: /tmp/a"),
        ("from matplotlib import pyplot as plt; plt.figure()", "1 pictures, and links to 0"),
    ],
)
def test_a_page_that_cannot_be_a_notebook_leaves_none(
    maker: ModuleType, tmp_path: Path, program: str, message: str
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```python\n{program}\n```\n", encoding="utf-8")
    with pytest.raises((ValueError, ZeroDivisionError), match=message):
        maker.write_notebook(page)
    assert list(tmp_path.iterdir()) == [page]


def test_the_site_shows_it_with_its_results() -> None:
    page = script("site_pages").from_notebook((PROJECT / "docs" / "tutorial.ipynb").read_text())
    for block in blocks(TUTORIAL):
        assert f"```python\n{block.program.rstrip()}\n```\n" in page
        assert block.output is None or f"```text\n{block.output}```\n" in page
    assert page.count("](data:image/png;base64,") >= 2
