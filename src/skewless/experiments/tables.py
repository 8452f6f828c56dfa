"""Tables in documents, generated from raw records and written between markers.

A document holds `<!-- table: NAME -->` and `<!-- end -->`; the text between them is replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def read_records(path: Path) -> list[Row]:
    """Return the raw records of a file of JSON lines."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def write_records(path: Path, records: Iterable[Row]) -> None:
    """Write raw records as JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as lines:
        for record in records:
            lines.write(json.dumps(record) + "\n")


def markdown(headings: Sequence[str], rows: Iterable[Sequence[object]], n_left: int = 1) -> str:
    """Return a Markdown table; every column but the first `n_left` is set to the right.

    >>> print(markdown(["strategy", "ratio"], [["pkg", 3.2]]))
    | strategy | ratio |
    | --- | ---: |
    | pkg | 3.2 |
    """
    lines = [
        "| " + " | ".join(headings) + " |",
        "|" + " --- |" * n_left + " ---: |" * (len(headings) - n_left),
        *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows),
    ]
    return "\n".join(lines)


def range_of(ratios: Sequence[float]) -> str:
    """Return the lowest and the highest; one round has no range.

    >>> range_of([1.25, 0.5]), range_of([1.25])
    ('0.50 – 1.25', '–')
    """
    return f"{min(ratios):.2f} – {max(ratios):.2f}" if len(ratios) > 1 else "–"


def replace_table(text: str, name: str, content: str) -> str:
    """Return `text` with new content between the markers of table `name`.

    >>> replace_table("a <!-- table: x -->old<!-- end --> b", "x", "new")
    'a <!-- table: x -->\\nnew\\n<!-- end --> b'
    """
    begin = f"<!-- table: {name} -->"
    if begin not in text:
        raise ValueError(f"the document has no marker {begin}")
    pattern = re.compile(re.escape(begin) + r".*?<!-- end -->", re.DOTALL)
    return pattern.sub(lambda _: f"{begin}\n{content}\n<!-- end -->", text, count=1)


def write_table(document: Path, name: str, content: str) -> bool:
    """Replace one table of a document; return whether it changed."""
    before = document.read_text(encoding="utf-8")
    after = replace_table(before, name, content)
    if after != before:
        document.write_text(after, encoding="utf-8")
    return after != before
