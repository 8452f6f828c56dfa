"""The generated tables of the documents are those that the recorded raw records give."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("pyspark", reason="benchmarks on Spark have most of the tables")
pytest.importorskip("matplotlib", reason="matplotlib draws the pictures of the documents")

from benchmarks.records import PROJECT, Report, replace_table
from benchmarks.tables import REPORTS


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.name)
def test_documents_say_what_the_records_say(report: Report) -> None:
    records = report.read()
    assert records or report.command  # which the document names in place of the table
    for (document, marker), table in report.tables.items():
        page = (PROJECT / document).read_text(encoding="utf-8")
        content = report.content(table, records)
        assert replace_table(page, marker, content) == page, "run make docs-tables"


def test_every_marker_of_a_document_has_a_report() -> None:
    made = {place for report in REPORTS for place in report.tables}
    documents = [PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md")]
    there = {
        (page.relative_to(PROJECT).as_posix(), marker)
        for page in documents
        for marker in re.findall("<!-- table: (.*?) -->", page.read_text(encoding="utf-8"))
        if not marker.startswith("reproduction ")  # written together, from other records
    }
    assert there == made
