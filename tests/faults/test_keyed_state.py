"""Keyed state survives killed tasks, lost shuffles and killed drivers, record for record."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from faults.conftest import require_faults
from faults.jobs.bombs import lay, not_fired
from faults.jobs.comparing import CHAINED, assert_done, batches_of, chained
from faults.jobs.starting import N_BATCHES, Job, appeared, query, write_records
from skewless.spark.ledger import Ledger
from skewless.spark.ledger.names import state_plan_name
from skewless.spark.state.versions import bases
from skewless.spark.state.versions.version_files import read

pytestmark = [pytest.mark.faults, pytest.mark.spark]

#: A task may fail three times; what is written by then is written again.
BOMBS = (
    *["update.0.any.raise-9"] * 2,
    "update.1.any.kill_worker-20",
    "update.1.3.lose_shuffle",
    "update.2.any.kill_worker",
    "update.3.any.raise-40",
)
#: What is on disk when the driver dies, in the order of a micro-batch.
POINTS = (
    "checkpoint/offsets/0",
    "ledger/state/00000000/*/plan.arrow",
    "ledger/state/00000001/*/worker-*.arrow",
    "out/batch=2/*",
    "checkpoint/commits/2",
)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_faults()
    folder = tmp_path_factory.mktemp("keyed") / "records"
    write_records(folder)
    return folder


def versions_of(folder: Path) -> dict[tuple[int, int], Any]:
    """Return the tables of all versions that count, by batch and worker."""
    ledger = Ledger(str(folder / "ledger"))
    found = {}
    for batch in range(N_BATCHES):
        base = bases.complete(ledger, batch)
        assert base is not None
        for worker in range(base.workers):
            found[batch, worker] = read(ledger, base.version(worker).file).table
    return found


def n_moved(folder: Path) -> int:
    ledger = Ledger(str(folder / "ledger"))
    total = 0
    for batch in range(N_BATCHES):
        base = bases.complete(ledger, batch)
        entry = base and ledger.read(state_plan_name(batch, base.run))
        assert entry
        total += entry.arrays["moving.hashes"].size
    return total


@pytest.mark.parametrize("merging", ["state", "state in source order"])
def test_failed_tasks_change_no_result_and_no_version(
    records: Path, tmp_path: Path, merging: str
) -> None:
    queries = [query(name, "wanders", merging=merging) for name in ("calm", "disturbed")]
    lay(tmp_path / "disturbed", *BOMBS)
    job = Job(tmp_path, records, queries)
    assert job.wait() == 0, job.log()
    for one in queries:
        assert_done(tmp_path / one["name"])
        wanted = chained(records, by_time=merging == "state")
        assert batches_of(tmp_path / one["name"], CHAINED) == wanted
    assert not_fired(tmp_path / "disturbed") == []
    assert n_moved(tmp_path / "disturbed") > 50
    assert versions_of(tmp_path / "disturbed") == versions_of(tmp_path / "calm")


def test_killed_drivers_change_no_result_whatever_they_start_again_with(
    records: Path, tmp_path: Path
) -> None:
    chance = random.Random(0)
    for point in POINTS:
        # Other cores and other workers with every restart.
        workers, cores = chance.choice([2, 3, 5, 8]), chance.choice([1, 2, 4])
        queries = [query("killed", "wanders", merging="state", workers=workers)]
        job = Job(tmp_path, records, queries, master=f"local[{cores},4]")
        delay = chance.choice([0.0, 0.05, 0.2])
        job.kill_when(appeared(tmp_path / "killed", point), delay_s=delay)
    job = Job(tmp_path, records, [query("killed", "wanders", merging="state", workers=4)])
    assert job.wait() == 0, job.log()
    assert_done(tmp_path / "killed")
    assert batches_of(tmp_path / "killed", CHAINED) == chained(records)
