"""Test support: the programs of the documents, what they print, and a reader who runs them.

A program is a block marked `python`. A block marked `text` right after it is what it prints. A line
`<!-- fragment: why -->` right above a program says why it cannot be run.
"""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any, NamedTuple

PROJECT = Path(__file__).parent.parent
BLOCK = re.compile(
    r"(?:^<!-- fragment: (?P<why>.+?) -->\n+)?"
    r"^```(?:python|py)\b[^\n]*\n(?P<program>.*?)^```\n"
    r"(?:\n*^```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    """A program of a page."""

    page: str
    line: int
    program: str
    output: str | None  # what the page says that it prints
    why: str | None  # it is a fragment, and not run


def blocks(page: str) -> list[Block]:
    """Return the programs of a page; pages are named from the root of the project."""
    return blocks_of((PROJECT / page).read_text(encoding="utf-8"), page)


def blocks_of(text: str, page: str = "") -> list[Block]:
    """Return the programs of a text."""
    return [
        Block(
            page,
            text.count("\n", 0, match.start("program")) + 1,
            match["program"],
            match["output"],
            match["why"],
        )
        for match in BLOCK.finditer(text)
    ]


def run_page(page: str, folder: Path, **names: Any) -> dict[str, Any]:
    """Run the programs of a page in one session, compare what they print, and return all names.

    Folders below `/data` are in `folder` instead. Errors and differences name page and line.
    """
    known: dict[str, Any] = {"__name__": "__main__", **names}
    for block in blocks(page):
        if block.why is not None:
            continue
        program = block.program.replace('"/data/', f'"{folder.as_posix()}/')
        # Empty lines in front, so that a traceback has the line numbers of the page.
        code = compile("\n" * (block.line - 1) + program, page, "exec")
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(code, known)
        if block.output is not None:
            assert said.getvalue() == block.output, f"{page}, line {block.line}"
    return known
