"""Executors of a standalone cluster are killed, with their Python workers and all they wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.conftest import Setting
from faults.jobs.bombs import decisions, lay, not_fired
from faults.jobs.cluster import EXECUTORS, Cluster
from faults.jobs.comparing import assert_done, batches_of
from faults.jobs.starting import Job, learned, plans_of, query

pytestmark = [pytest.mark.faults, pytest.mark.spark]

COLUMNS = ("k", "n", "s", "spread")
SETTINGS = EXECUTORS | {"spark.sql.shuffle.partitions": "2"}
OFF = {
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
}
ON = dict.fromkeys(OFF, "true")


@pytest.fixture(scope="module")
def disturbed(setting: Setting, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("executors")
    lay(
        folder / "cascade",
        "combine.0.4.kill_executor",
        "merge.1.any.kill_executor",
        "finish.2.any.kill_executor",
        "route.3.any.kill_executor",
    )
    # In the last batch: by then there are two executors again.
    lay(folder / "dice", "combine.3.4.kill_executor")
    queries = [
        # What one executor combined stays when the other dies: only equal decisions save the rest.
        query("cascade", "cascade", settings=OFF),
        query("dice", "dice", settings=ON),
    ]
    with Cluster(folder / "cluster") as cluster:
        job = Job(folder, setting.records, queries, master=cluster.master, settings=SETTINGS)
        assert job.wait() == 0, job.log()
    return folder


def test_killed_executors_change_no_result(setting: Setting, disturbed: Path) -> None:
    folder = disturbed / "cascade"
    assert_done(folder)
    assert not_fired(folder) == []
    attempts = decisions(folder)
    assert max(len(attempts[0, source]) for source in (0, 1)) > 1  # routed again for the lost half
    assert {len(set(one.values())) for one in attempts.values()} == {1}
    assert batches_of(folder, COLUMNS) == batches_of(setting.calm / "plain", COLUMNS)
    assert plans_of(folder) == plans_of(setting.calm / "cascade")
    assert learned(folder) == learned(setting.calm / "cascade")


def test_checksums_save_results_that_nobody_has_seen_yet(setting: Setting, disturbed: Path) -> None:
    """Behind a router that throws dice, Spark combines all anew, and the query goes on."""
    folder = disturbed / "dice"
    assert_done(folder)
    assert not_fired(folder) == []
    attempts = decisions(folder)
    assert max(len(set(attempts[3, source].values())) for source in (0, 1)) > 1
    assert batches_of(folder, COLUMNS) == batches_of(setting.calm / "plain", COLUMNS)
