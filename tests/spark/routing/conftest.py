"""A ledger for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from skewless.spark.ledger.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(str(tmp_path / "ledger"))
