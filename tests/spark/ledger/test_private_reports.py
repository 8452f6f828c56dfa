"""What holds the texts of keys on a local disk can be read by its owner alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from skewless.spark.ledger.folder import LocalFolder

if not hasattr(os, "geteuid"):
    pytest.skip("this system has no owners of files", allow_module_level=True)


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
