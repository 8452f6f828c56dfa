"""A query is stopped and started again with other cores, other shuffle partitions, another state.

`session()` sets the number of shuffle partitions to that of the cores; Spark keeps the number of a
stateful query in its checkpoint. Whatever both are, every key must find its state again. A query
whose state has another type than before must be refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from faults.conftest import Setting
from faults.jobs.comparing import assert_like_plain
from faults.jobs.starting import N_BATCHES, Job, query

pytestmark = [pytest.mark.faults, pytest.mark.spark]

#: One micro-batch with each: more cores, fewer cores, and another number for the same cores.
LAYOUTS: tuple[tuple[str, dict[str, str]], ...] = (
    ("local[2,4]", {}),
    ("local[4,4]", {}),
    ("local[1,4]", {}),
    ("local[2,4]", {"spark.sql.shuffle.partitions": "7"}),
)
PLAIN = (
    query("plain", "plain"),
    query("plain_windows", "plain", windows=True),
    query("plain_windows_update", "plain", windows=True, mode="update"),
)
QUERIES = (
    query("own", "cascade"),
    # As many workers as there are shuffle partitions, so another number after each restart.
    query("own_bare", "cascade", ledger=False, workers=None),
    query("own_windows", "readj", windows=True),
    query("own_windows_update", "fish", windows=True, mode="update", ledger=False),
    query("variance", "cascade", merging="variance"),
    query("variance_windows_bare", "fish", merging="variance", windows=True, ledger=False),
    query("native", "cascade", merging="native"),
    query("native_windows", "readj", merging="native", windows=True),
    query("routed", "readj", merging="none"),
)
#: Started once with another type of state, which is refused, and then as before.
REFUSED = {
    "own": "LedgerMismatch",
    "own_bare": "SCHEMA_NOT_COMPATIBLE",
    "own_windows": "LedgerMismatch",
    "own_windows_update": "SCHEMA_NOT_COMPATIBLE",
}
OTHER_STATE = {"state": "struct<low: double, high: double>"}


@pytest.fixture(scope="module")
def restarted(setting: Setting, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run all queries, and plain Spark beside them, with one driver for each layout."""
    folder = tmp_path_factory.mktemp("cores")
    assert len(LAYOUTS) == N_BATCHES
    for number, (master, settings) in enumerate(LAYOUTS, start=1):
        queries = [one | {"steps": steps(one, number)} for one in (*PLAIN, *QUERIES)]
        for one in queries:
            (folder / one["name"] / "done").unlink(missing_ok=True)
        job = Job(folder, setting.records, queries, master=master, settings=settings)
        assert job.wait() == 0, job.log()
    return folder


def steps(one: dict[str, Any], n_batches: int) -> list[list[Any]]:
    """Build the script of one driver: the last of all begins with another state."""
    changed = [["refuse", n_batches, OTHER_STATE]] if one["name"] in REFUSED else []
    return [*(changed if n_batches == N_BATCHES else []), ["run", n_batches]]


@pytest.mark.parametrize("one", QUERIES, ids=lambda one: one["name"])
def test_other_cores_change_no_result(
    setting: Setting, restarted: Path, one: dict[str, Any]
) -> None:
    assert_like_plain(restarted / one["name"], one, setting.records, restarted)


@pytest.mark.parametrize("name", REFUSED)
def test_another_type_of_state_is_refused(restarted: Path, name: str) -> None:
    """That it leaves no row behind is seen above: all results are those of plain Spark."""
    message = (restarted / name / "refused").read_text()
    assert REFUSED[name] in message
    assert "low: int64, high: int64" in message
    assert "low: double, high: double" in message
