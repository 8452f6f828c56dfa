"""Logs that Spark itself wrote, of jobs with a hot key: the right stage and a remedy that fits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from command_line import run
from skewless.diagnosis.event_log import log_files

pytestmark = [pytest.mark.spark, pytest.mark.slow]

JOB = Path(__file__).with_name("logged_job.py")
ROLLED = [
    "spark.eventLog.rolling.enabled=true",
    "spark.eventLog.rolling.maxFileSize=10m",
    "spark.eventLog.compress=true",
    "spark.eventLog.compression.codec=zstd",
]
LZ4 = ["spark.eventLog.rolling.enabled=false", *ROLLED[2:3], "spark.eventLog.compression.codec=lz4"]
ZSTD = ["spark.eventLog.rolling.enabled=false", *ROLLED[2:]]


def logged(work: str, folder: Path, settings: list[str], *, ends_well: bool = True) -> Path:
    """Return the log of a job that a process of its own ran."""
    from skewless.spark.configuring import find_java

    folder.mkdir()
    environment = os.environ | {"JAVA_HOME": str(find_java()), "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, str(JOB), work, str(folder), *settings]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert (done.returncode == 0) is ends_well, done.stderr[-3000:]
    (log,) = (one for one in folder.iterdir() if not one.name.startswith("."))
    return log


def told(log: Path, *options: str) -> dict[str, list[dict[str, Any]]]:
    """Run the command with --json; return its objects by kind."""
    result = run("diagnose", "log", str(log), "--json", *options)
    assert result.exit_code == 0, result.output
    found: dict[str, list[dict[str, Any]]] = {}
    for one in map(json.loads, result.stdout.splitlines()):
        found.setdefault(one["kind"], []).append(one)
    return found


@pytest.mark.parametrize(
    ("work", "settings", "operator", "remedy"),
    [
        ("records", ROLLED, "MapInArrow", "skewless.spark.route in place of the repartition"),
        ("keys", LZ4, "FlatMapGroupsInPandas", "skewless.spark.aggregate with an Aggregator"),
    ],
)
def test_the_stage_of_the_hot_key_is_named(
    tmp_path: Path, work: str, settings: list[str], operator: str, remedy: str
) -> None:
    log = logged(work, tmp_path / "logs", settings)
    if settings is ROLLED:
        assert len(log_files(log)) > 1
        assert all(file.name.endswith(".zstd") for file in log_files(log))
    found = told(log, "--slots", "4")
    (application,) = found["application"]
    assert application["complete"]
    assert not application["skew_ruled_out"]
    own, more = found["what-if"]
    # The replay has all times of the log; only what waited for what is a model.
    assert own["slots"] == 2
    assert own["seconds"] == pytest.approx(own["measured_seconds"], rel=0.1)
    assert more["slots"] == 4
    assert more["balanced_seconds"] < more["seconds"] <= own["seconds"]
    assert "unfinished" not in found
    # Of all stages, one has a task with many more records.
    (one,) = (straggler for straggler in found["straggler"] if straggler["cause"] == "records")
    assert one["job"] == "hot"
    assert operator in one["operators"]
    assert one["tasks"] == 4
    assert one["share_of_records"] > 0.6
    assert remedy in one["remedy"]


def test_a_hot_task_that_fails_each_time_is_named(tmp_path: Path) -> None:
    log = logged("fails", tmp_path / "logs", ZSTD, ends_well=False)
    assert log.name.endswith(".zstd")
    found = told(log)
    (one,) = found["failed"]
    assert one["failures"] == 2
    assert one["reason"].endswith("MemoryError: the hot key")
    assert not found["application"][0]["skew_ruled_out"]


def test_a_driver_that_was_killed_on_its_hot_task_rules_nothing_out(tmp_path: Path) -> None:
    log = logged("killed", tmp_path / "logs", ZSTD, ends_well=False)
    assert log.name.endswith(".zstd.inprogress")
    (application,) = told(log)["application"]
    assert not application["complete"]
    assert application["open_jobs"] == 1
    assert not application["skew_ruled_out"]


def test_the_log_of_the_demo_names_the_stage_that_scores_words(tmp_path: Path) -> None:
    from skewless.spark.configuring import find_java

    folder = tmp_path / "logs of the demo"
    command = [sys.executable, "-m", "skewless", "demo", "--strategy", "hash", "--workers", "4"]
    command += ["--records", "6000", "--batches", "2", "--work-us", "2000", "--load-us", "0"]
    command += ["--event-log", str(folder)]
    environment = os.environ | {"JAVA_HOME": str(find_java()), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"Spark's log of the job: skewless diagnose log {folder}" in done.stdout
    (log,) = (one for one in folder.iterdir() if not one.name.startswith("."))
    found = told(log)
    # Every word is scored by a function over the records of a partition, after a shuffle by word.
    scoring = [one for one in found["straggler"] if "MapInArrow" in one["operators"]]
    assert scoring, found["straggler"]
    for one in scoring:
        assert one["tasks"] == 4
        assert one["cause"] == "records"
        assert "skewless.spark.route in place of the repartition" in one["remedy"]
