"""A query is started again with other cores, other shuffle partitions, and as another query."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from faults.jobs import Job, assert_done, batches_of, committed_rows, query, write_records

pytestmark = [pytest.mark.faults, pytest.mark.spark]

COLUMNS = ("k", "n", "s", "spread")
WINDOW_COLUMNS = ("window", *COLUMNS)
#: Each reads what the one before it has left; a session has as many shuffle partitions as cores.
MASTERS = ("local[2,4]", "local[4,4]", "local[1,4]")
OTHER_STATE = "struct<low: double, high: double>"
BLOCKS = {
    "with_ledger": {"ledger": True, "windows": False},
    "without_ledger": {"ledger": False, "windows": False},
    "windows_with_ledger": {"ledger": True, "windows": True},
    "windows_without_ledger": {"ledger": False, "windows": True},
}


def queries(state: str | None = None) -> list[dict[str, Any]]:
    return [query(name, "cascade", state=state, **given) for name, given in BLOCKS.items()]


def run(folder: Path, master: str, chosen: Sequence[dict[str, Any]]) -> None:
    job = Job(folder, folder / "records", chosen, master=master)
    assert job.wait() == 0, job.log()


def give(folder: Path, files: Sequence[Path]) -> None:
    (folder / "records").mkdir(exist_ok=True)
    for file in files:
        shutil.copy2(file, folder / "records")


def test_results_survive_other_cores_and_a_changed_query_is_refused(tmp_path: Path) -> None:
    write_records(tmp_path / "all")
    plain = [query("plain", "plain"), query("plain_windows", "plain", windows=True)]
    native = query("native", "cascade", merging="native", windows=True)
    files = sorted((tmp_path / "all").glob("*.parquet"))
    for master, part in zip(MASTERS, (files[:4], files[4:6], files[6:]), strict=True):
        give(tmp_path, part)
        if master == MASTERS[-1]:
            assert_refused(tmp_path, master)
        chosen = [*plain, *queries(), native]
        run(tmp_path, master, chosen)
        for one in chosen:
            assert_done(tmp_path / one["name"])
            (tmp_path / one["name"] / "done").unlink()
    expected = committed_rows(tmp_path / "plain_windows", WINDOW_COLUMNS)
    assert expected
    for name, given in BLOCKS.items():
        if given["windows"]:
            assert committed_rows(tmp_path / name, WINDOW_COLUMNS) == expected, name
        else:
            ours = batches_of(tmp_path / name, COLUMNS)
            assert ours == batches_of(tmp_path / "plain", COLUMNS), name
    columns = ("window", "k", "n", "s", "distinct")
    merged = committed_rows(tmp_path / "native", columns)
    assert merged == committed_rows(tmp_path / "plain_windows", columns)


def assert_refused(folder: Path, master: str) -> None:
    """Start all queries with another type of state: each says what differs, none gives a result."""
    before = {name: results(folder, name) for name in BLOCKS}
    run(folder, master, queries(OTHER_STATE))
    for name, given in BLOCKS.items():
        failed = folder / name / "failed"
        message = failed.read_text()
        assert ("LedgerMismatch" if given["ledger"] else "StateMismatch") in message, message
        assert "low: int64, high: int64" in message
        assert "low: double, high: double" in message
        failed.unlink()
    assert {name: results(folder, name) for name in BLOCKS} == before


def results(folder: Path, name: str) -> Any:
    """Return what a query has given away so far."""
    if BLOCKS[name]["windows"]:
        return committed_rows(folder / name, WINDOW_COLUMNS)
    return {n: rows for n, rows in batches_of(folder / name, COLUMNS).items() if rows}
