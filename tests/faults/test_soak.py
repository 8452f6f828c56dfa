"""A query of keyed state that runs for long uses no more in the end than in the beginning."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from faults.conftest import require_faults
from faults.jobs.soak_job import KEPT, ROWS_PER_BATCH
from faults.jobs.starting import end_session, environment
from skewless.spark.ledger.ledger import KEPT_RUNS

pytestmark = [pytest.mark.faults, pytest.mark.spark]

#: Another number of micro-batches for `make soak`.
BATCHES = "SKEWLESS_SOAK_BATCHES"
MOST_WORKERS = 4


def soaked(folder: Path, n_batches: int, longest_s: float) -> list[dict[str, Any]]:
    """Read the notes of the job, after a check that no record was lost or counted twice."""
    require_faults()
    with (folder / "log").open("wb") as log:
        job = subprocess.Popen(
            [sys.executable, "-m", "faults.jobs.soak_job", str(folder), str(n_batches)],
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
        )
        try:
            code = job.wait(longest_s)
        finally:
            job.kill()
            end_session(job)
    assert code == 0, (folder / "log").read_text(errors="replace")[-4000:]
    end = json.loads((folder / "end.json").read_text())
    assert end["batches"] >= n_batches
    assert end["ended"] + end["held"] == end["batches"] * ROWS_PER_BATCH
    assert end["ended"] > end["held"]
    return [json.loads(line) for line in (folder / "soak.jsonl").read_text().splitlines()]


def most(rows: list[dict[str, Any]], name: str) -> float:
    return max(row[name] for row in rows)


def test_sixty_batches_leave_as_few_files_as_thirty(tmp_path: Path) -> None:
    rows = soaked(tmp_path, 60, 1_800)
    # Files are merged for some thirty micro-batches before as much leaves them as comes.
    first, last = ([r for r in rows if begin <= r["batch"] < begin + 20] for begin in (20, 40))
    assert most(last, "files") <= most_files()
    # Both have the same churn; numbers of keys and workers differ a little.
    assert most(last, "bytes") <= 1.5 * most(first, "bytes")


@pytest.mark.soak
def test_two_thousand_batches_use_no_more_in_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = soaked(tmp_path, int(os.environ.get(BATCHES, "2000")), 4 * 3_600)
    begin = len(rows) // 4
    halves = rows[begin : (begin + len(rows)) // 2], rows[(begin + len(rows)) // 2 :]
    names = (
        *("seconds", "cpu_seconds", "files", "bytes"),
        *("python_bytes", "java_bytes", "java_live_bytes"),
    )
    middle = [{name: statistics.median(r[name] for r in half) for name in names} for half in halves]
    with capsys.disabled():
        print(f"\nafter a quarter of {rows[-1]['batch'] + 1} batches, medians of both halves:")
        for name in names:
            print(f"  {name}: {middle[0][name]:,.4g} and {middle[1][name]:,.4g}")
    assert most(halves[1], "files") <= most_files()
    assert most(halves[1], "bytes") <= 1.2 * most(halves[0], "bytes")
    # A cache that grows by a kilobyte with each file would be at twice this after 2,000 batches.
    assert most(halves[1], "python_bytes") <= 1.1 * most(halves[0], "python_bytes") + 8e6
    # Spark itself keeps its last thousand jobs and queries, which the first quarter fills.
    assert most(halves[1], "java_live_bytes") <= 1.1 * most(halves[0], "java_live_bytes") + 8e6
    # CPU seconds depend on the machine's other work by caches and clocks, a little.
    assert middle[1]["cpu_seconds"] <= 1.25 * middle[0]["cpu_seconds"]


def most_files() -> int:
    """Compute the most files there may be, whatever has happened before."""
    batches = KEPT + 2 + 8  # purged in every eighth micro-batch
    per_batch = 2 * MOST_WORKERS + 1  # versions, reports, the plan
    older = 16 * MOST_WORKERS  # that kept versions build on
    return batches * per_batch + older + KEPT_RUNS + 32
