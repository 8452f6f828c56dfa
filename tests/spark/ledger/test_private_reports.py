"""What holds the texts of keys on a local disk can be read by its owner alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from skewless import aggregations as aggs
from skewless.spark import BalanceListener, explain_balance
from skewless.spark.aggregation.combining import RECORDS, _report
from skewless.spark.aggregation.partials import Partials
from skewless.spark.ledger.folder import LocalFolder
from skewless.spark.ledger.ledger import Entry, Ledger

if not hasattr(os, "geteuid"):
    pytest.skip("this system has no owners of files", allow_module_level=True)

IDENTITY = {"strategy": "pkg", "parameters": "{}", "workers": 2, "seed": 0, "key": "k"}
SECRET = "a key that nobody else may read"


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """Return the modes of all that is below a folder, by path."""
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode)
        for path in sorted(folder.rglob("*"))
    }


def write_all(folder: LocalFolder) -> None:
    folder.create("one", b"1")
    folder.overwrite("one", b"2")
    folder.create("reports/7/two", b"3")
    folder.overwrite("reports/7/three", b"4")


def test_a_ledger_is_for_its_owner_alone(tmp_path: Path) -> None:
    write_all(LocalFolder(tmp_path / "above" / "ledger"))
    assert modes(tmp_path / "above") == {
        "ledger": 0o700,
        "ledger/one": 0o600,
        "ledger/reports": 0o700,
        "ledger/reports/7": 0o700,
        "ledger/reports/7/two": 0o600,
        "ledger/reports/7/three": 0o600,
    }


def test_files_are_private_in_a_folder_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "ledger").mkdir(mode=0o775)
    write_all(LocalFolder(tmp_path / "ledger"))
    found = modes(tmp_path)
    assert found.pop("ledger") == 0o775
    assert set(found.values()) == {0o600, 0o700}


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_folder_made_for_a_group_shares_all_that_is_in_it(tmp_path: Path, umask: int) -> None:
    """For executors that run as another user than the driver."""
    shared = tmp_path / "ledgers"
    shared.mkdir()
    shared.chmod(0o2770)
    os.umask(umask)
    write_all(LocalFolder(shared / "query-1"))
    assert modes(shared) == {
        "query-1": 0o2770,
        "query-1/one": 0o660,
        "query-1/reports": 0o2770,
        "query-1/reports/7": 0o2770,
        "query-1/reports/7/two": 0o660,
        "query-1/reports/7/three": 0o660,
    }


def worker(keys: list[str]) -> Entry:
    """Build the report of a worker that got these records."""
    partials = Partials(pa.schema([("k", pa.string())]), ("k",), {RECORDS: aggs.count()})
    table = partials.update(pa.table({"k": pa.array(keys, pa.string())}))
    return _report(partials, table, len(keys), 1.0)


def event() -> Any:
    progress = SimpleNamespace(
        id="query-1",
        name=None,
        batchId=0,
        timestamp="2024-01-01T00:00:00.000Z",
        numInputRows=2,
        processedRowsPerSecond=1.0,
        durationMs={"triggerExecution": 10},
    )
    return SimpleNamespace(progress=progress)


def test_outputs_with_keys_are_private_and_that_of_prometheus_has_none(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path / "ledger"))
    ledger.claim(IDENTITY)
    ledger.bind("query-1")
    ledger.publish_plan(0, Entry({}, {}))
    ledger.write_report(0, 0, Entry({"loads": np.array([2, 0])}, {"records": 2, "seconds": 0.1}))
    ledger.write_worker(0, 0, worker([SECRET, SECRET]))
    ledger.write_worker(0, 1, worker([]))
    out = tmp_path / "out"
    out.mkdir()
    listener = BalanceListener(
        ledger.folder, json_lines=out / "added.jsonl", prometheus=out / "balance.prom"
    )
    listener.onQueryProgress(event())
    explain_balance(ledger.folder).write_json_lines(out / "written.jsonl")
    assert modes(out) == {"added.jsonl": 0o600, "balance.prom": 0o644, "written.jsonl": 0o600}
    assert SECRET in (out / "added.jsonl").read_text()
    assert SECRET in (out / "written.jsonl").read_text()
    assert SECRET not in (out / "balance.prom").read_text()
