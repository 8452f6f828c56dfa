"""Tasks that fail, by an exception or because their Python process is killed, are run again."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.conftest import Setting
from faults.jobs.bombs import decisions, lay, not_fired
from faults.jobs.comparing import assert_done, batches_of
from faults.jobs.starting import Job, learned, plans_of, query

pytestmark = [pytest.mark.faults, pytest.mark.spark]

STRATEGIES = ("cascade", "fish", "readj")
COLUMNS = ("k", "n", "s", "spread")
BOMBS = (
    # A task may fail three times; with the fourth the query would end.
    *["route.0.any.raise"] * 3,
    "route.1.any.kill_worker",
    "combine.1.any.raise",
    "merge.1.any.kill_worker",
    "combine.2.any.kill_worker",
    "merge.2.any.raise",
    "finish.2.any.kill_worker",
    "finish.3.any.raise",
)


@pytest.fixture(scope="module")
def disturbed(setting: Setting, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run one query per strategy, each with all the bombs, in one job."""
    folder = tmp_path_factory.mktemp("tasks")
    for strategy in STRATEGIES:
        lay(folder / strategy, *BOMBS)
    job = Job(folder, setting.records, [query(strategy, strategy) for strategy in STRATEGIES])
    assert job.wait() == 0, job.log()
    return folder


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_failed_tasks_change_no_result(setting: Setting, disturbed: Path, strategy: str) -> None:
    assert_done(disturbed / strategy)
    assert not_fired(disturbed / strategy) == []
    expected = batches_of(setting.calm / "plain", COLUMNS)
    assert batches_of(disturbed / strategy, COLUMNS) == expected


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_failed_tasks_leave_the_ledger_as_it_would_be(
    setting: Setting, disturbed: Path, strategy: str
) -> None:
    assert plans_of(disturbed / strategy) == plans_of(setting.calm / strategy)
    assert learned(disturbed / strategy) == learned(setting.calm / strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_retried_source_decides_as_before(disturbed: Path, strategy: str) -> None:
    attempts = decisions(disturbed / strategy)
    assert sum(len(one) > 1 for one in attempts.values()) >= 2  # in batches 0 and 1
    assert {len(set(one.values())) for one in attempts.values()} == {1}
