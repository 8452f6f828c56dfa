"""A ledger that version 1 of the format wrote is refused in one line.

`ledgers_of_version_1.zip` has two small ones, of three micro-batches each: `route` with the
strategy `pkg`, six workers and two sources; `process` with `mixed` and two workers.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from skewless.spark import scale_to
from skewless.spark.ledger import Ledger, LedgerCorrupt
from skewless.spark.ledger.names import state_plan_name
from skewless.spark.state.versions import bases, version_files
from spark.state.chains import SCHEMA, chain, records
from spark.state.without_spark import Query

TOO_OLD = r"^[^\n]* has version 1, and this skewless reads version 2 only: begin with[^\n]*$"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with zipfile.ZipFile(Path(__file__).with_name("ledgers_of_version_1.zip")) as ledgers:
        ledgers.extractall(tmp_path)
    return tmp_path


def newest(ledger: Ledger) -> bases.Base:
    found = bases.newest(ledger)
    assert found is not None
    return found


@pytest.mark.parametrize("verb", ["process", "route"])
@pytest.mark.parametrize("ask", [Ledger.identity, Ledger.owner, lambda one: one.claim({"a": 1})])
def test_what_a_query_asks_first_is_refused(
    folder: Path, verb: str, ask: Callable[[Ledger], Any]
) -> None:
    with pytest.raises(LedgerCorrupt, match=TOO_OLD):
        ask(Ledger(str(folder / verb)))


def test_plans_and_versions_are_refused(folder: Path) -> None:
    ledger = Ledger(str(folder / "process"))
    base = newest(ledger)
    with pytest.raises(LedgerCorrupt, match=TOO_OLD):
        ledger.read(state_plan_name(base.batch, base.run))
    with pytest.raises(LedgerCorrupt, match=TOO_OLD):
        version_files.read(ledger, base.version(0).file)
    with pytest.raises(LedgerCorrupt, match=TOO_OLD):
        scale_to(str(folder / "process"), 3)


def test_a_query_is_refused_before_a_record(folder: Path) -> None:
    query = Query(folder / "process", chain(), SCHEMA, strategy="mixed", run="run-0")
    with pytest.raises(LedgerCorrupt, match=TOO_OLD):
        query.plan(3, records(40, 3))
