"""A ledger of two batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from skewless.spark.ledger.ledger import Entry, Ledger
from skewless.spark.ledger.names import plan_name
from spark.balance.reports import IDENTITY, source, worker
from spark.ledger.entries import write_report, write_worker


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """Return a ledger of two batches; the second has workers, and keys that are awkward."""
    made = Ledger(str(tmp_path / "ledger"))
    made.claim(IDENTITY)
    made.bind("query-1")
    made.publish(plan_name(0), Entry({}, {}))
    write_report(made, 0, 0, source(3, 2, 1))
    write_report(made, 1, 0, source(2, 2, 0))
    write_worker(made, 1, 0, worker(['two\nlines "quoted" \\', None]))
    write_worker(made, 1, 1, worker(["ключ \x1b[31m", None]))
    write_worker(made, 1, 2, worker([]))
    return made
