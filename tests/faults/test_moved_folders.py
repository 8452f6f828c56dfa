"""The ledger or the checkpoint is an older copy, is gone, or belongs to another query.

A ledger only says where records go. So an older or an empty one changes no result; one of another
query is refused before anything is written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from faults.conftest import Setting
from faults.jobs.comparing import assert_done, assert_like_plain, batches_of
from faults.jobs.starting import Job, query

pytestmark = [pytest.mark.faults, pytest.mark.spark]

KINDS: dict[str, dict[str, Any]] = {
    "own": {"strategy": "cascade"},
    "moved": {"strategy": "readj", "merging": "native"},
    # Not appended: Spark's file sink leaves out batches that it has, whatever the checkpoint says.
    "windows": {"strategy": "fish", "windows": True, "mode": "update"},
    "routed": {"strategy": "readj", "merging": "none"},
}
STOPS = (["run", 1], ["run", 3], ["run", 4])
PARTITIONS = "spark.sql.shuffle.partitions"


def older_ledger(name: str) -> list[list[Any]]:
    ledger, copy = f"{name}/ledger", f"{name}/copy"
    return [
        ["run", 1],
        ["copy", ledger, copy],
        ["run", 3],
        ["copy", copy, ledger],
        ["run", 4],
    ]


def older_checkpoint(name: str) -> list[list[Any]]:
    """The ledger has plans and reports of batches that run again."""
    checkpoint, copy = f"{name}/checkpoint", f"{name}/copy"
    return [
        ["run", 1],
        ["copy", checkpoint, copy],
        ["run", 3],
        ["copy", copy, checkpoint],
        ["run", 3],
        ["run", 4],
    ]


def no_ledger_and_other_partitions(name: str) -> list[list[Any]]:
    """What was written down in the ledger must not be the only place of it."""
    return [
        ["set", PARTITIONS, "2"],
        ["run", 1],
        ["delete", f"{name}/ledger"],
        ["set", PARTITIONS, "5"],
        ["run", 3],
        ["delete", f"{name}/ledger"],
        ["set", PARTITIONS, "1"],
        ["run", 4],
        ["set", PARTITIONS, "2"],
    ]


SCENARIOS = {
    "own": (older_ledger, older_checkpoint, no_ledger_and_other_partitions),
    "windows": (older_checkpoint, no_ledger_and_other_partitions),
    "moved": (older_ledger, older_checkpoint),
    "routed": (older_ledger,),
}
HARMLESS = [
    query(name, **KINDS[kind], steps=scenario(name))
    for kind, scenarios in SCENARIOS.items()
    for scenario in scenarios
    for name in [f"{kind}_{scenario.__name__}"]
]
#: Two queries with the same arguments, and what one of them finds in the place of its ledger.
REFUSED = [
    query("one", "cascade", bombed=False, steps=[["run", 2]]),
    query(
        "swapped",
        "cascade",
        bombed=False,
        steps=[
            ["run", 2],
            ["copy", "swapped/ledger", "swapped/mine"],
            ["copy", "one/ledger", "swapped/ledger"],
            ["refuse", 4],
            ["copy", "swapped/out", "swapped/then/out"],
            ["copy", "swapped/mine", "swapped/ledger"],
            ["run", 4],
        ],
    ),
    query(
        "new_checkpoint",
        "cascade",
        bombed=False,
        steps=[
            ["run", 2],
            ["delete", "new_checkpoint/checkpoint"],
            ["copy", "new_checkpoint/out", "new_checkpoint/then/out"],
            ["refuse", 4],
        ],
    ),
]


@pytest.fixture(scope="module")
def ran(setting: Setting, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run all of them in one driver, and plain Spark with the same stops."""
    folder = tmp_path_factory.mktemp("moved")
    plain = [
        query("plain", "plain", steps=STOPS),
        query("plain_windows_update", "plain", windows=True, mode="update", steps=STOPS),
    ]
    job = Job(folder, setting.records, [*plain, *HARMLESS, *REFUSED])
    assert job.wait() == 0, job.log()
    return folder


@pytest.mark.parametrize("one", HARMLESS, ids=lambda one: one["name"])
def test_older_and_lost_folders_change_no_result(
    setting: Setting, ran: Path, one: dict[str, Any]
) -> None:
    assert_like_plain(ran / one["name"], one, setting.records, ran)


def test_the_ledger_of_another_query_is_refused(setting: Setting, ran: Path) -> None:
    """No row is written, and with its own ledger the query goes on."""
    folder = ran / "swapped"
    assert_done(folder)
    refusal = (folder / "refused").read_text()
    assert "LedgerMismatch" in refusal
    assert "belongs to the query" in refusal
    then = batches_of(folder / "then", ("k",))
    assert [batch for batch, rows in sorted(then.items()) if rows] == [0, 1]
    assert_like_plain(folder, query("swapped", "cascade"), setting.records, ran)


def test_a_ledger_is_refused_to_a_new_checkpoint(ran: Path) -> None:
    """Without its checkpoint a query is another one, whose batches begin with 0 again."""
    folder = ran / "new_checkpoint"
    assert_done(folder)
    assert "LedgerMismatch" in (folder / "refused").read_text()
    found, before = batches_of(folder, ("k", "n")), batches_of(folder / "then", ("k", "n"))
    assert not found.pop(0)  # the sink has made room for it, and no row has come
    before.pop(0)
    assert found == before
