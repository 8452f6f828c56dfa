"""A batch or a join that was planned first: retried tasks and lost executors change no record.

The session is plain Spark's, without `configure`, and without the checksums of Spark 4.3: nothing
but equal decisions can save the results.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from faults.jobs.cluster import EXECUTORS, Cluster
from faults.jobs.planned_job import WORKERS
from faults.jobs.starting import run_without_checksums, write_records
from skewless.spark.worker_python import DAEMON

pytestmark = [pytest.mark.faults, pytest.mark.spark]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planned") / "records"
    write_records(folder)
    return folder


def run(folder: Path, records: Path, cases: list[list[str]], master: str, settings: Any) -> None:
    run_without_checksums("planned_job", folder, records, cases, master, settings)


def rows(path: Path, *more: str) -> Counter[Any]:
    table = pq.read_table(path, columns=["k", "v", *more])
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def assert_complete(folder: Path, records: Path) -> None:
    assert (folder / "fired").exists()
    assert rows(folder / "out") == rows(records)
    workers = Counter(worker for _, _, worker in rows(folder / "out", "worker").elements())
    assert set(workers) == set(range(WORKERS))


def test_a_lost_shuffle_and_a_failed_task_change_nothing(records: Path, tmp_path: Path) -> None:
    cases = [["scan", "lose_shuffle"], ["shuffled", "lose_shuffle"], ["dice", "lose_shuffle"]]
    run(tmp_path / "shuffle", records, cases, "local[2,4]", {})
    for case in ("scan", "shuffled"):
        assert_complete(tmp_path / "shuffle" / case, records)
    # This loss harms whoever decides differently, so the test can fail.
    assert rows(tmp_path / "shuffle" / "dice" / "out") != rows(records)
    cases = [["scan", "raise"], ["joined", "raise"]]
    run(tmp_path / "task", records, cases, "local[2,4]", {})
    for case in ("scan", "joined"):
        assert_complete(tmp_path / "task" / case, records)


def test_a_lost_executor_and_speculation_change_nothing(records: Path, tmp_path: Path) -> None:
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.0",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "100ms",
    }
    settings = {name: value for name, value in EXECUTORS.items() if name not in DAEMON}
    names = ("scan", "shuffled", "joined")
    cases = [[name, "kill_executor"] for name in names]
    with Cluster(tmp_path / "cluster") as cluster:
        run(tmp_path / "jobs", records, cases, cluster.master, settings | speculation)
    for case in names:
        assert_complete(tmp_path / "jobs" / case, records)
