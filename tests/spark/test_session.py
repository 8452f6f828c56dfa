"""Sessions: the settings, the search for Java, and one that is really started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import SparkSession

from skewless.spark.configuring import SETTINGS, configure, find_java
from skewless.spark.worker_python import DAEMON

STARTED = """
import os, sys
from skewless.spark.configuring import session
from skewless.spark.routing.route import route

spark = session("mine", master="local[3]", settings={"spark.sql.session.timeZone": "Asia/Tokyo"})
for name in sys.argv[1:]:
    print(name, spark.conf.get(name), sep="=")
print("slots", spark.sparkContext.defaultParallelism, sep="=")
routed = route(spark.range(0, 1000, 1, 3), "id", workers=4, column="to")
print("workers", routed.select("to").distinct().count(), sep="=")

def warm(batches):
    return (batch for batch in batches if "skewless.spark.warming" in sys.modules)

print("warmed", spark.range(3).mapInArrow(warm, "id bigint").count(), sep="=")
spark.stop()
"""


def test_configure_leaves_a_builders_own_settings_and_adds_ours() -> None:
    class Builder:
        def __init__(self) -> None:
            self.settings: dict[str, str] = {"mine": "1"}

        def config(self, name: str, value: str) -> Builder:
            self.settings[name] = value
            return self

        def getOrCreate(self) -> None:  # noqa: N802 - Spark's name
            raise AssertionError("no session is wanted")

    assert configure(Builder()).settings == {"mine": "1", **SETTINGS}
    assert configure(Builder(), daemon=False).settings == {"mine": "1", **SETTINGS}
    assert configure(Builder(), daemon=True).settings == {"mine": "1", **SETTINGS, **DAEMON}


def fake_java(home: Path, version: str) -> Path:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    java.chmod(0o755)
    return home


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Hide the Java of this machine."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(Path, "glob", lambda *_: [])
    return monkeypatch


def test_the_java_of_java_home_is_taken(tmp_path: Path, no_java: pytest.MonkeyPatch) -> None:
    no_java.setenv("JAVA_HOME", str(fake_java(tmp_path / "jdk", "21.0.1")))
    assert find_java() == tmp_path / "jdk"


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path, no_java: pytest.MonkeyPatch) -> None:
    no_java.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_402")))
    good = fake_java(tmp_path / "good", "17.0.9")
    no_java.setattr(shutil, "which", lambda _: str(good / "bin" / "java"))
    assert find_java() == good


def test_without_java_it_is_said_what_to_install(no_java: pytest.MonkeyPatch) -> None:
    no_java.setenv("JAVA_HOME", "/no/such/place")
    with pytest.raises(RuntimeError, match=r"Java 17 or later .* set JAVA_HOME"):
        find_java()


@pytest.mark.slow
@pytest.mark.spark
def test_a_session_has_our_settings_and_yours_win(spark: SparkSession, tmp_path: Path) -> None:
    """`spark` is there to skip without Java; the session of this test is another process's."""
    wanted = SETTINGS | DAEMON
    names = [*wanted, "spark.sql.session.timeZone", "spark.sql.shuffle.partitions"]
    done = subprocess.run(
        [sys.executable, "-c", STARTED, *names],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "SPARK_LOCAL_DIRS": str(tmp_path), "SKEWLESS_WARM": "cascade"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert {name: said[name] for name in wanted} == wanted
    assert said["spark.sql.session.timeZone"] == "Asia/Tokyo"
    assert said["spark.sql.shuffle.partitions"] == said["slots"] == "3"
    assert said["workers"] == "4"
    assert said["warmed"] == "3"
