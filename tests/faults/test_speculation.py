"""Spark runs copies of slow tasks: whichever attempt ends first, the results are the same.

Spark runs no copy on the machine of the original. So the workers have different addresses.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.conftest import Setting
from faults.jobs.bombs import copies, decisions, lay, not_fired
from faults.jobs.cluster import Cluster
from faults.jobs.comparing import CHAINED, assert_done, assert_same_batches, batches_of, chained
from faults.jobs.starting import Job, learned, plans_of, query
from skewless.spark.worker_python import DAEMON

pytestmark = [pytest.mark.faults, pytest.mark.spark]

SETTINGS = {
    **DAEMON,  # skewless is installed on this cluster
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    "spark.locality.wait": "0s",
    # A copy of whatever still runs when half of its stage is done.
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.0",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "100ms",
    # Nothing but equal decisions may save the results.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
}
#: Tasks that wait until a copy of them has come as far. All have records under both strategies.
SLOW = ("route.0.0", "route.2.1", "combine.1.3", "combine.3.7")
#: The same among the workers of keyed state, each of which has records in every micro-batch.
SLOW_WORKERS = ("update.0.1", "update.1.3", "update.3.6")


@pytest.mark.parametrize("strategy", ["cascade", "readj"])
def test_copies_of_slow_tasks_change_no_result(
    setting: Setting, tmp_path: Path, strategy: str
) -> None:
    folder = tmp_path / strategy
    lay(folder, *(f"{where}.until_copied" for where in SLOW))
    with Cluster(tmp_path / "cluster", apart=True) as cluster:
        queries = [query(strategy, strategy)]
        job = Job(tmp_path, setting.records, queries, master=cluster.master, settings=SETTINGS)
        assert job.wait() == 0, job.log()
    assert_done(folder)
    assert not_fired(folder) == []
    assert copies(folder) == sorted(SLOW)  # both attempts of each were there
    attempts = decisions(folder)
    assert min(len(attempts[batch, source]) for batch, source in ((0, 0), (2, 1))) > 1
    assert {len(set(one.values())) for one in attempts.values()} == {1}
    columns = ("k", "n", "s", "spread")
    assert batches_of(folder, columns) == batches_of(setting.calm / "plain", columns)
    assert plans_of(folder) == plans_of(setting.calm / strategy)
    assert learned(folder) == learned(setting.calm / strategy)


def test_copies_of_slow_workers_change_no_state(setting: Setting, tmp_path: Path) -> None:
    folder = tmp_path / "chained"
    lay(folder, *(f"{where}.until_copied" for where in SLOW_WORKERS))
    with Cluster(tmp_path / "cluster", apart=True) as cluster:
        queries = [query("chained", "wanders", merging="state")]
        job = Job(tmp_path, setting.records, queries, master=cluster.master, settings=SETTINGS)
        assert job.wait() == 0, job.log()
    assert_done(folder)
    assert not_fired(folder) == []
    assert copies(folder) == sorted(SLOW_WORKERS)
    assert_same_batches(batches_of(folder, CHAINED), chained(setting.records), "chained")
