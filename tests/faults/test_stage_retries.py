"""What map tasks wrote is lost while others read it: Spark runs the routing stage again.

Some workers have their records by then and are not asked again. So the routing must be the same
the second time, or records are lost and counted twice.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.conftest import Setting
from faults.jobs.bombs import decisions, lay, not_fired
from faults.jobs.comparing import assert_done, batches_of, batches_of_records
from faults.jobs.starting import Job, learned, plans_of, query

pytestmark = [pytest.mark.faults, pytest.mark.spark]

COLUMNS = ("k", "n", "s", "spread")
RECORDS = ("k", "v")
OFF = {
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
}
ON = dict.fromkeys(OFF, "true")
STRATEGIES = ("cascade", "fish", "readj")


@pytest.fixture(scope="module")
def disturbed(setting: Setting, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stages")
    queries = [
        # Without the checksums, so that nothing but equal decisions can save the results.
        *[query(strategy, strategy, merging="none", settings=OFF) for strategy in STRATEGIES],
        query("aggregated", "cascade", settings=OFF),
        query("dice_unchecked", "dice", merging="none", settings=OFF),
        query("dice_checked", "dice", merging="none", settings=ON),
    ]
    # At worker 5 of 8, with two at a time: some are through, and some have not begun.
    for one in queries:
        place = "work" if one["merging"] == "none" else "combine"
        lay(folder / one["name"], f"{place}.1.5.lose_shuffle")
    job = Job(folder, setting.records, queries)
    assert job.wait() == 0, job.log()
    for one in queries:
        assert not_fired(folder / one["name"]) == []
    return folder


def different_decisions(folder: Path) -> int:
    """Count the most answers that a source gave when batch 1 was routed again."""
    attempts = decisions(folder)
    assert max(len(attempts[1, source]) for source in (0, 1)) > 1
    return max(len(set(one.values())) for one in attempts.values())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_lost_shuffle_loses_and_repeats_no_record(
    setting: Setting, disturbed: Path, strategy: str
) -> None:
    folder = disturbed / strategy
    assert_done(folder)
    assert different_decisions(folder) == 1
    assert batches_of(folder, RECORDS) == batches_of_records(setting.records)
    assert plans_of(folder) == plans_of(setting.calm / strategy)


def test_a_lost_shuffle_changes_no_result(setting: Setting, disturbed: Path) -> None:
    folder = disturbed / "aggregated"
    assert_done(folder)
    assert different_decisions(folder) == 1
    assert batches_of(folder, COLUMNS) == batches_of(setting.calm / "plain", COLUMNS)
    assert plans_of(folder) == plans_of(setting.calm / "cascade")
    assert learned(folder) == learned(setting.calm / "cascade")


def test_this_loss_harms_whoever_decides_differently(setting: Setting, disturbed: Path) -> None:
    """Shows that the tests above can fail: a router that throws dice loses and repeats records."""
    folder = disturbed / "dice_unchecked"
    assert_done(folder)
    assert different_decisions(folder) > 1
    expected = batches_of_records(setting.records)
    found = batches_of(folder, RECORDS)
    assert found[0] == expected[0]
    assert found[1] - expected[1]
    assert expected[1] - found[1]


def test_checksums_stop_whoever_decides_differently(setting: Setting, disturbed: Path) -> None:
    """Spark cannot take back what finished tasks wrote: it ends the query, and a restart mends."""
    folder = disturbed / "dice_checked"
    assert different_decisions(folder) > 1
    assert not (folder / "done").exists()
    assert "indeterminate output" in (folder / "failed").read_text()
    (folder / "failed").unlink()
    job = Job(
        disturbed, setting.records, [query("dice_checked", "dice", merging="none", settings=ON)]
    )
    assert job.wait() == 0, job.log()
    assert_done(folder)
    assert batches_of(folder, RECORDS) == batches_of_records(setting.records)
