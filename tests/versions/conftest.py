"""The session of the smoke suite, classic or Connect, and the records of how each test ended.

`make test-versions` runs the suite once for each version of Spark and each kind of session.
`SKEWLESS_SPARK_MODE` says which kind. `SKEWLESS_VERSIONS_RECORDS` names the file of raw records;
those of the same version, kind and part are replaced.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_sessions import local_settings

MODES = ("classic", "connect")
MODE = os.environ.get("SKEWLESS_SPARK_MODE", "classic")
RECORDS = os.environ.get("SKEWLESS_VERSIONS_RECORDS")
_ended: dict[str, str] = {}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return a local session of the chosen kind."""
    from pyspark.sql import SparkSession

    from skewless.spark import configure
    from skewless.spark.finding_java import find_java

    assert MODE in MODES, f"SKEWLESS_SPARK_MODE must be one of {MODES}, not {MODE!r}"
    os.environ["JAVA_HOME"] = str(find_java())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("spark")
    builder = configure(SparkSession.builder)
    builder = builder.remote("local[2]") if MODE == "connect" else builder.master("local[2]")
    quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    for name, value in (local_settings(folder) | quick).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    is_connect = type(session).__module__.startswith("pyspark.sql.connect")
    assert is_connect == (MODE == "connect"), type(session)
    yield session
    session.stop()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Keep how each test of a labelled part ended: the worst of its phases."""
    outcome: Any = yield
    marker = item.get_closest_marker("versions")
    if marker is None or not marker.args:
        return
    label, report = marker.args[0], outcome.get_result()
    if _ended.get(label) != "failed" and (report.outcome != "passed" or label not in _ended):
        _ended[label] = report.outcome


def pytest_sessionfinish() -> None:
    """Write the records; those of other versions, kinds of session and parts stay."""
    if RECORDS is None or not _ended:
        return
    import pyspark

    from skewless.plumbing.compiling import JIT_OFF

    same = {"spark": pyspark.__version__, "mode": MODE}
    path = Path(RECORDS)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    kept = [
        record
        for record in map(json.loads, lines)
        if same.items() - record.items() or record["part"] not in _ended
    ]
    run = {"python": platform.python_version(), "compiled": not JIT_OFF}
    new = [{**same, **run, "part": p, "outcome": o} for p, o in _ended.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    order = sorted([*kept, *new], key=lambda r: (r["spark"], r["mode"]))
    path.write_text("".join(json.dumps(record) + "\n" for record in order), encoding="utf-8")
