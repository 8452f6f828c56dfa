"""Raw records in `results/`, and the tables of documents, which are generated from them.

A document holds `<!-- table: NAME -->` and `<!-- end -->`; the text between them is replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Row = dict[str, Any]

PROJECT = Path(__file__).resolve().parent.parent
RESULTS = PROJECT / "benchmarks" / "results"
#: The page of most tables.
BENCHMARKS = "docs/results/benchmarks.md"


@dataclass(frozen=True)
class Report:
    """A file of raw records, and the tables that are made from it."""

    name: str  # the name of the file in `results/`
    # The function that makes each table, by its document and its marker.
    tables: Mapping[tuple[str, str], Callable[[list[Row]], str]]
    command: str = ""  # that measures; named in place of a table that has no rows yet

    @property
    def path(self) -> Path:
        """The file of the raw records."""
        return RESULTS / self.name

    def read(self) -> list[Row]:
        """Return the raw records; none if nothing was measured yet."""
        return read_records(self.path) if self.path.exists() else []

    def write(self, records: Iterable[Row]) -> None:
        """Write these raw records, and the tables."""
        # All at once: a run that fails leaves the records of the last one.
        write_records(self.path, list(records))
        print(f"raw records: {self.path.relative_to(PROJECT)}")
        self.write_tables()

    def write_tables(self) -> None:
        """Write the tables anew; measures nothing."""
        records = self.read()
        for (document, marker), table in self.tables.items() if records or self.command else ():
            write_table(PROJECT / document, marker, self.content(table, records))

    def content(self, table: Callable[[list[Row]], str], records: list[Row]) -> str:
        """Return a table, or the sentence in its place if it has no rows."""
        content = table(records) if records else ""
        # A table of a heading alone, or none.
        if self.command and (not records or content.endswith(" ---: |")):
            return f"There are no figures yet: `{self.command}` measures them."
        return content


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


def markdown(
    headings: str | Sequence[str], rows: Iterable[Sequence[object]], n_left: int = 1
) -> str:
    """Return a Markdown table; every column but the first `n_left` is set to the right.

    >>> print(markdown("strategy | ratio", [["pkg", 3.2]]))
    | strategy | ratio |
    | --- | ---: |
    | pkg | 3.2 |
    """
    names = headings.split(" | ") if isinstance(headings, str) else headings
    lines = [
        "| " + " | ".join(names) + " |",
        "|" + " --- |" * n_left + " ---: |" * (len(names) - n_left),
        *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows),
    ]
    return "\n".join(lines)


def grouped(records: Iterable[Row], *columns: str) -> dict[Any, list[Row]]:
    """Return the records by their values in these columns, in the order of the first ones.

    >>> grouped([{"a": 1, "b": 2}, {"a": 1, "b": 3}], "a")
    {1: [{'a': 1, 'b': 2}, {'a': 1, 'b': 3}]}
    """
    found: dict[Any, list[Row]] = {}
    for record in records:
        values = tuple(record[column] for column in columns)
        found.setdefault(values if len(values) > 1 else values[0], []).append(record)
    return found


def ratios(
    ours: Iterable[Row], theirs: Iterable[Row], value: Callable[[Row], float], within: str
) -> list[float]:
    """Return ours to theirs, for each turn that both have: what slows one down slows both down."""
    base = {record[within]: value(record) for record in theirs}
    return [value(record) / base[record[within]] for record in ours if record[within] in base]


def range_of(found: Sequence[float]) -> str:
    """Return the lowest and the highest; one round has no range.

    >>> range_of([1.25, 0.5]), range_of([1.25])
    ('0.50 – 1.25', '–')
    """
    return f"{min(found):.2f} – {max(found):.2f}" if len(found) > 1 else "–"


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
