"""The records of all jobs, and the results of plain Spark, computed once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from faults.jobs.comparing import assert_done, n_late
from faults.jobs.starting import Job, n_different_plans, query, write_records


@dataclass(frozen=True)
class Setting:
    """Where the records are, and what runs without faults made of them.

    `calm` is the folder of those runs: of plain Spark, and of skewless.
    """

    records: Path
    calm: Path


def require_faults() -> None:
    """Skip a test where nothing can be disturbed: without Spark, Java, or processes to be found."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from skewless.spark.configuring import find_java

    try:
        find_java()
    except RuntimeError as error:
        pytest.skip(str(error))
    if not Path("/proc/self/stat").exists():
        pytest.skip("these tests find processes in /proc")


@pytest.fixture(scope="session")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Setting:
    require_faults()
    folder = tmp_path_factory.mktemp("calm")
    records = folder / "records"
    write_records(records)
    queries = [
        query("plain", "plain"),
        query("plain_windows", "plain", windows=True),
        query("plain_windows_update", "plain", windows=True, mode="update"),
        query("cascade", "cascade"),
        query("fish", "fish"),
        query("readj", "readj"),
        query("readj_windows", "readj", merging="native", windows=True),
        query("join", "wanders", merging="join"),
    ]
    job = Job(folder, records, queries)
    assert job.wait() == 0, job.log()
    for one in queries:
        assert_done(folder / one["name"])
    assert n_late(folder / "plain_windows", records) > 100
    for strategy in ("cascade", "fish", "readj", "readj_windows"):
        # What a fault could destroy is there: plans that have learned, and go on learning.
        assert n_different_plans(folder / strategy) > 1
    return Setting(records, folder)
