"""A ledger that version 1 of the format wrote is continued by this one.

`ledgers_of_version_1.zip` has two small ones, of three micro-batches each: `route` with the
strategy `pkg`, six workers and two sources; `process` with `mixed` and two workers, whose reports
are in files beside the versions.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from skewless.spark import explain_balance
from skewless.spark.ledger import Ledger
from skewless.spark.routing.plans import PlanMaker
from skewless.strategies import PartialKey
from spark.routing.source_tasks import N_RECORDS, keys_of, route, run_task
from spark.state.chains import SCHEMA, chain, chained, in_order, records
from spark.state.without_spark import Query, files_of, stamp_of

TABLES = [records(40, batch) for batch in range(8)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with zipfile.ZipFile(Path(__file__).with_name("ledgers_of_version_1.zip")) as ledgers:
        ledgers.extractall(tmp_path)
    return tmp_path


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return in_order(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("run", ["run-0", "run-1"])
def test_states_and_reports_in_two_files_are_continued(folder: Path, run: str) -> None:
    """By the same run, as if the program were replaced under it, and after a restart."""
    seen = {batch: stamp_of(table) for batch, table in enumerate(TABLES[:3])}
    query = Query(
        folder / "process", chain(), SCHEMA, strategy="mixed", run=run, kept=2, checkpoint=seen
    )
    found = [rows(query.step(batch, TABLES[batch])) for batch in range(3, 8)]
    assert found == chained(TABLES)[3:]
    assert not [name for name in files_of(folder / "process") if name.startswith("workers/")]


def test_a_micro_batch_of_before_is_repeated(folder: Path) -> None:
    query = Query(folder / "process", chain(), SCHEMA, strategy="mixed", run="run-1")
    found = [rows(query.step(batch, TABLES[batch])) for batch in range(2, 8)]
    assert found == chained(TABLES)[2:]


def test_balances_of_before_are_shown_beside_new_ones(folder: Path) -> None:
    query = Query(folder / "process", chain(), SCHEMA, strategy="mixed", run="run-1")
    for batch in range(2, 5):
        query.step(batch, TABLES[batch])
    found = explain_balance(folder / "process").batches
    assert [(one.batch, one.records) for one in found] == [(batch, 40) for batch in range(5)]


def test_sources_go_on_from_reports_of_before(folder: Path) -> None:
    ledger, strategy = Ledger(str(folder / "route")), PartialKey()
    plans = PlanMaker(strategy, 6, 11)
    states = [strategy.start(6, 11, source=source) for source in range(2)]
    for batch in range(5):
        for source, state in enumerate(states):
            wanted = route(strategy, keys_of(batch, source), state)
            if batch > 2:
                assert np.array_equal(run_task(plans, ledger, batch, source, "run-1"), wanted)
    found = explain_balance(folder / "route").batches
    assert [one.records for one in found] == 5 * [2 * N_RECORDS]
