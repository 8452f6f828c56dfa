"""Whatever is killed by chance, and however often, the results are those of plain Spark.

Every run prints its seed. `SKEWLESS_KILL_SEED=7 make test-faults` repeats the choices of seed 7.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from faults.conftest import Setting
from faults.jobs.cluster import Cluster
from faults.jobs.comparing import assert_like_plain
from faults.jobs.killer import ON_CLUSTER, QUERIES, run_killing

pytestmark = [pytest.mark.faults, pytest.mark.spark]

SEED = "SKEWLESS_KILL_SEED"


def kill_and_compare(setting: Setting, folder: Path, seed: int) -> Counter[str]:
    """Run all queries on this machine, and some on a cluster, and compare what they wrote."""
    kills = run_killing(folder / "local", setting.records, random.Random(f"{seed} local"))
    chance = random.Random(f"{seed} cluster")  # whatever happened on this machine
    with Cluster(folder / "cluster") as cluster:
        kills += run_killing(folder / "on_cluster", setting.records, chance, cluster.master)
    ran = [(folder / "local", one) for one in QUERIES]
    ran += [(folder / "on_cluster", one) for one in QUERIES if one["name"] in ON_CLUSTER]
    faults = [fault for place, one in ran if (fault := fault_of(setting, place, one))]
    assert not faults, f"{SEED}={seed}, after {dict(kills)}:\n" + "\n".join(faults)
    return kills


def fault_of(setting: Setting, folder: Path, one: dict[str, Any]) -> str:
    """Compare a query with plain Spark; an empty text if they are equal."""
    try:
        assert_like_plain(folder / one["name"], one, setting.records, setting.calm)
    except AssertionError as error:
        return f"{folder.name}: {one['name']}: {error}"
    return ""


def test_ten_random_kills_change_no_result(
    setting: Setting, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get(SEED, "0"))
    kills = kill_and_compare(setting, tmp_path, seed)
    with capsys.disabled():
        print(f"\n{SEED}={seed}: {kills.total()} kills: {dict(kills)}")
    assert kills.total() >= 10
    assert all(kills[kind] for kind in ("task", "worker", "executor", "driver")), kills


@pytest.mark.nightly
def test_two_hundred_random_kills_change_no_result(
    setting: Setting, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other choices in every run: the seed comes from the clock unless it is given."""
    first = int(os.environ.get(SEED, str(time.time_ns() % 1_000_000)))
    kills: Counter[str] = Counter()
    for seed in range(first, first + 40):
        kills += kill_and_compare(setting, tmp_path / str(seed), seed)
        with capsys.disabled():
            print(f"\n{SEED}={seed}: {kills.total()} kills so far: {dict(kills)}")
        if kills.total() >= 200:
            break
    assert kills.total() >= 200
