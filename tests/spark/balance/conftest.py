"""A ledger of two batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from skewless.spark.ledger.ledger import Entry, Ledger
from spark.balance.reports import IDENTITY, source, worker


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Return a ledger of two batches; the second has workers, and keys that are awkward."""
    made = Ledger(str(tmp_path / "ledger"))
    made.claim(IDENTITY)
    made.bind("query-1")
    made.publish_plan(0, Entry({}, {}))
    made.write_report(0, 0, source(3, 2, 1))
    made.write_report(1, 0, source(2, 2, 0))
    made.write_worker(1, 0, worker(['two\nlines "quoted" \\', None]))
    made.write_worker(1, 1, worker(["ключ \x1b[31m", None]))
    made.write_worker(1, 2, worker([]))
    return made
