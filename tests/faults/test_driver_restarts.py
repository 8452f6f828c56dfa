"""The driver is killed at many points and started again from its checkpoint, until it ends."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from faults.conftest import Setting
from faults.jobs.bombs import decisions, lay, not_fired
from faults.jobs.comparing import assert_done, batches_of, committed_rows
from faults.jobs.starting import N_BATCHES, Job, appeared, learned, plans_of, query

pytestmark = [pytest.mark.faults, pytest.mark.spark]

COLUMNS = ("k", "n", "s", "spread")
#: What is on disk when the driver dies, in the order of a micro-batch.
POINTS = (
    "checkpoint/offsets/0",
    "ledger/plans/00000000.arrow",
    "ledger/reports/00000001/*/source-*.arrow",
    "ledger/workers/00000001/*/worker-*.arrow",
    "checkpoint/state/0/*/3.changelog",
    "out/batch=2/*",
    "checkpoint/commits/2",
    "ledger/plans/00000003.arrow",
)
POINTS_WITH_FILES = (
    "ledger/plans/00000001.arrow",
    "ledger/workers/00000001/*/worker-*.arrow",
    "out/_spark_metadata/2",
    "ledger/plans/00000003.arrow",
)
#: Each lies between the plan of its batch and the commit of that batch.
BOMBS = (
    "route.0.any.kill_driver",
    "combine.1.any.kill_driver",
    "merge.2.any.kill_driver",
    "before_write.2.any.kill_driver",
    "after_write.3.any.kill_driver",
)


def assert_ledger_as_without_faults(folder: Path, calm: Path) -> None:
    assert sorted(plans_of(folder)) == list(range(N_BATCHES))
    assert plans_of(folder) == plans_of(calm)
    assert learned(folder) == learned(calm)
    attempts = decisions(folder)
    assert any(len(one) > 1 for one in attempts.values())  # some batch was routed again
    assert {len(set(one.values())) for one in attempts.values()} == {1}


@pytest.fixture(scope="module")
def killed(setting: Setting, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run three queries, one after the other, and kill the driver again and again.

    A driver that brings a query to its end goes on with the next one, and dies there.
    """
    folder = tmp_path_factory.mktemp("drivers")
    queries = [
        query("cascade", "cascade"),
        query("readj_windows", "readj", merging="native", windows=True),
        query("fish", "fish"),
    ]
    lay(folder / "fish", *BOMBS)
    # A moment after each of the points: by chance, but the same chance in every run.
    chance = random.Random(0)
    points = [("cascade", point) for point in POINTS]
    points += [("readj_windows", point) for point in POINTS_WITH_FILES]
    for name, point in points:
        job = Job(folder, setting.records, queries)
        job.kill_when(appeared(folder / name, point), delay_s=chance.choice([0.0, 0.05, 0.2]))
    for _ in BOMBS:
        job = Job(folder, setting.records, queries)
        assert job.wait() == -signal.SIGKILL, job.log()
    job = Job(folder, setting.records, queries)
    assert job.wait() == 0, job.log()
    return folder


def test_results_survive_a_driver_killed_when_files_appear(setting: Setting, killed: Path) -> None:
    folder = killed / "cascade"
    assert_done(folder)
    assert batches_of(folder, COLUMNS) == batches_of(setting.calm / "plain", COLUMNS)
    assert_ledger_as_without_faults(folder, setting.calm / "cascade")


def test_files_of_the_sink_survive_a_killed_driver(setting: Setting, killed: Path) -> None:
    """Windows in append mode, merged by Spark, written by Spark's own exactly-once file sink."""
    folder = killed / "readj_windows"
    assert_done(folder)
    columns = ("window", "k", "n", "s", "distinct")
    expected = committed_rows(setting.calm / "plain_windows", columns)
    assert expected
    assert committed_rows(folder, columns) == expected
    assert_ledger_as_without_faults(folder, setting.calm / "readj_windows")


def test_results_survive_a_driver_killed_by_its_own_tasks(setting: Setting, killed: Path) -> None:
    folder = killed / "fish"
    assert not_fired(folder) == []
    assert_done(folder)
    assert batches_of(folder, COLUMNS) == batches_of(setting.calm / "plain", COLUMNS)
    assert_ledger_as_without_faults(folder, setting.calm / "fish")
