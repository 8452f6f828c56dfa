"""Executors of a standalone cluster are killed, with their Python workers and all they wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.bombs import decisions, lay, not_fired
from faults.cluster import Cluster
from faults.conftest import Setting
from faults.jobs import Job, assert_done, batches_of, learned, plans_of, query

pytestmark = [pytest.mark.faults, pytest.mark.spark]

COLUMNS = ("k", "n", "s", "spread")
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    # Only equal decisions save the results: what one executor combined stays when the other dies.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
}


def test_killed_executors_change_no_result(setting: Setting, tmp_path: Path) -> None:
    folder = tmp_path / "cascade"
    lay(
        folder,
        "route.0.any.kill_executor",
        "combine.1.4.kill_executor",
        "merge.2.any.kill_executor",
        "finish.3.any.kill_executor",
    )
    with Cluster(tmp_path / "cluster") as cluster:
        job = Job(
            tmp_path,
            setting.records,
            [query("cascade", "cascade")],
            master=cluster.master,
            settings=SETTINGS,
        )
        assert job.wait() == 0, job.log()
    assert_done(folder)
    assert not_fired(folder) == []
    attempts = decisions(folder)
    assert max(len(attempts[1, source]) for source in (0, 1)) > 1  # routed again for the lost half
    assert {len(set(one.values())) for one in attempts.values()} == {1}
    assert batches_of(folder, COLUMNS) == batches_of(setting.calm / "plain", COLUMNS)
    assert plans_of(folder) == plans_of(setting.calm / "cascade")
    assert learned(folder) == learned(setting.calm / "cascade")
