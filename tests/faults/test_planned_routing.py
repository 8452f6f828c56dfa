"""A batch that was planned first: retried tasks and lost executors lose and repeat no record.

The session is plain Spark's, without `configure`, and without the checksums of Spark 4.3: nothing
but equal decisions can save the results.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from faults.conftest import Setting
from faults.jobs.cluster import EXECUTORS, Cluster
from faults.jobs.planned_job import WORKERS
from faults.jobs.starting import environment
from skewless.spark.worker_python import DAEMON
from spark_sessions import local_settings

pytestmark = [pytest.mark.faults, pytest.mark.spark]

OFF = {
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
}


def run(folder: Path, records: Path, cases: list[list[str]], master: str, settings: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    about = {
        "folder": str(folder),
        "input": str(records),
        "master": master,
        "settings": local_settings(folder) | OFF | settings,
        "cases": cases,
    }
    config = folder / "config.json"
    config.write_text(json.dumps(about))
    done = subprocess.run(
        [sys.executable, "-m", "faults.jobs.planned_job", str(config)],
        env=environment(),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=1_800,
    )
    assert done.returncode == 0, done.stderr[-4000:]


def rows(path: Path, *more: str) -> Counter[Any]:
    table = pq.read_table(path, columns=["k", "v", *more])
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def assert_complete(folder: Path, records: Path) -> None:
    assert (folder / "fired").exists()
    assert rows(folder / "out") == rows(records)
    workers = Counter(worker for _, _, worker in rows(folder / "out", "worker").elements())
    assert set(workers) == set(range(WORKERS))


def test_a_lost_shuffle_and_a_failed_task_change_nothing(setting: Setting, tmp_path: Path) -> None:
    cases = [["scan", "lose_shuffle"], ["shuffled", "lose_shuffle"], ["dice", "lose_shuffle"]]
    run(tmp_path / "shuffle", setting.records, cases, "local[2,4]", {})
    for case in ("scan", "shuffled"):
        assert_complete(tmp_path / "shuffle" / case, setting.records)
    # This loss harms whoever decides differently, so the test can fail.
    assert rows(tmp_path / "shuffle" / "dice" / "out") != rows(setting.records)
    run(tmp_path / "task", setting.records, [["scan", "raise"]], "local[2,4]", {})
    assert_complete(tmp_path / "task" / "scan", setting.records)


def test_a_lost_executor_and_speculation_change_nothing(setting: Setting, tmp_path: Path) -> None:
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.0",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "100ms",
    }
    settings = {name: value for name, value in EXECUTORS.items() if name not in DAEMON}
    cases = [["scan", "kill_executor"], ["shuffled", "kill_executor"]]
    with Cluster(tmp_path / "cluster") as cluster:
        run(tmp_path / "jobs", setting.records, cases, cluster.master, settings | speculation)
    for case in ("scan", "shuffled"):
        assert_complete(tmp_path / "jobs" / case, setting.records)
