"""The ready operators survive killed tasks, lost shuffles and killed drivers, row for row."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from faults.conftest import require_faults
from faults.jobs.bombs import lay, not_fired
from faults.jobs.comparing import assert_done, assert_same_rows, batches_of
from faults.jobs.operators import COLUMNS
from faults.jobs.starting import N_BATCHES, Job, appeared, query, write_records
from skewless.spark.ledger import Ledger
from skewless.spark.state.versions import bases
from skewless.spark.state.versions.plan_files import read_entry

pytestmark = [pytest.mark.faults, pytest.mark.spark]

#: In the source's tasks, and in the workers' after their version is written.
BOMBS = (
    "route.0.any.raise",
    "work.1.any.raise",
    "work.1.any.kill_worker",
    "route.2.any.kill_worker",
    "work.2.1.lose_shuffle",
    "work.3.any.raise",
)
#: What is on disk when the driver dies.
POINTS = (
    "ledger/state/00000001/*/plan.arrow",
    "ledger/workers/00000001/*/worker-*.arrow",
    "ledger/state/00000002/*/worker-*.arrow",
    "out/batch=2/*",
)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the records, and of what runs without faults gave."""
    require_faults()
    folder = tmp_path_factory.mktemp("operators")
    write_records(folder / "records")
    job = Job(folder, folder / "records", queries("calm", workers=4))
    assert job.wait() == 0, job.log()
    return folder


def queries(name: str, workers: int) -> list[dict[str, object]]:
    return [
        query(f"{name}-{operator}", "wanders", merging=operator, workers=workers)
        for operator in COLUMNS
    ]


def assert_like_calm(calm: Path, folder: Path, name: str) -> None:
    """Fail unless each micro-batch of each operator gave the same rows."""
    for operator, columns in COLUMNS.items():
        assert_done(calm / f"calm-{operator}")
        assert_done(folder / f"{name}-{operator}")
        wanted = batches_of(calm / f"calm-{operator}", columns)
        found = batches_of(folder / f"{name}-{operator}", columns)
        assert sorted(found) == sorted(wanted) == list(range(N_BATCHES))
        for batch, rows in wanted.items():
            assert_same_rows(found[batch], rows, f"{operator}, batch {batch}")
        assert sum(rows.total() for rows in wanted.values()) > 100


def n_spread(folder: Path) -> int:
    """Count the keys that are spread after the last micro-batch."""
    ledger = Ledger(str(folder / "ledger"))
    base = bases.complete(ledger, N_BATCHES - 1)
    entry = base and read_entry(ledger, base.batch, base.run)
    assert entry
    return int(entry.arrays["spread.hashes"].size)


def test_failed_tasks_change_no_row_of_an_operator(calm: Path, tmp_path: Path) -> None:
    for operator in COLUMNS:
        lay(tmp_path / f"disturbed-{operator}", *BOMBS)
    job = Job(tmp_path, calm / "records", queries("disturbed", workers=4))
    assert job.wait() == 0, job.log()
    assert_like_calm(calm, tmp_path, "disturbed")
    for operator in COLUMNS:
        # Sessions and duplicates may leave a worker without rows, and a bomb without passers-by.
        left = not_fired(tmp_path / f"disturbed-{operator}")
        assert len(left) <= 2, (operator, left)
    assert n_spread(tmp_path / "disturbed-join") >= 1


def test_killed_drivers_change_no_row_of_an_operator(calm: Path, tmp_path: Path) -> None:
    chance = random.Random(1)
    for operator, point in zip(COLUMNS, POINTS, strict=True):
        # Other cores and other workers with every restart.
        workers, cores = chance.choice([2, 3, 5, 8]), chance.choice([1, 2, 4])
        job = Job(
            tmp_path,
            calm / "records",
            queries("killed", workers=workers),
            master=f"local[{cores},4]",
        )
        happened = appeared(tmp_path / f"killed-{operator}", point)
        job.kill_when(happened, delay_s=chance.choice([0.0, 0.05, 0.2]))
    job = Job(tmp_path, calm / "records", queries("killed", workers=4))
    assert job.wait() == 0, job.log()
    assert_like_calm(calm, tmp_path, "killed")
