"""Whatever a stranger writes into a ledger is refused in one line, or safe to route by."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

TESTS = Path(__file__).parents[2]
#: Which files are damaged how follows from this number.
SEED = int(os.environ.get("SKEWLESS_FUZZ_SEED", "1"))


def fuzz(n_files: int, *, jit: bool = True) -> dict[str, int]:
    """Damage so many files in a process that may crash; return the outcomes."""
    done = subprocess.run(
        [sys.executable, "-m", "spark.ledger.damage", str(n_files), str(SEED)],
        cwd=TESTS,
        env={**os.environ, "NUMBA_DISABLE_JIT": "0" if jit else "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * 3600,
    )
    *failures, told = done.stdout.splitlines() or [""]
    assert failures == []
    assert done.returncode == 0, done.stderr[-2000:]
    counts: dict[str, int] = json.loads(told)
    return counts


@pytest.mark.slow
def test_damaged_files_are_refused_or_harmless() -> None:
    counts = fuzz(2_000)
    assert counts.keys() == {"accepted", "refused"}
    assert min(counts.values()) > 500  # of neither kind there are few, or nothing is tested


@pytest.mark.statistics
def test_very_many_damaged_files_are_refused_or_harmless() -> None:
    counts = fuzz(int(os.environ.get("SKEWLESS_FUZZ_FILES", "100000")))
    assert sum(counts.values()) > 95_000


@pytest.mark.statistics
def test_damaged_files_are_refused_or_harmless_where_every_index_is_checked() -> None:
    """Without compilation an index out of range is an error, and never foreign memory."""
    counts = fuzz(3_000, jit=False)
    assert sum(counts.values()) > 2_500
