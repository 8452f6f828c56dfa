"""A cluster whose Python has no skewless: one line says so, and everything else goes on."""

from __future__ import annotations

import venv
from pathlib import Path

import pytest

from faults.jobs.cluster import Cluster
from skewless.spark.finding_java import find_java
from spark.scripts import REFUSED, said_by

pytestmark = [pytest.mark.faults, pytest.mark.spark]


def test_python_functions_go_on_and_route_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        monkeypatch.setenv("JAVA_HOME", str(find_java()))
    except RuntimeError as error:
        pytest.skip(str(error))
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    bare = str(tmp_path / "bare" / "bin" / "python3")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", bare)
    with Cluster(tmp_path / "cluster", n_workers=1) as cluster:
        said = said_by(REFUSED, tmp_path, master=cluster.master)
        assert said["warned"] == "[]"
        assert said["python"] == said["after"] == bare
        line = said["refused"]
        assert f"skewless is not installed in the workers' Python, {bare}: install version" in line

        # Whoever insists on the daemon gets a line as well.
        asked = REFUSED.partition('print("after"')[0]
        said = said_by(asked, tmp_path, master=cluster.master, daemon=True, NO_FUNCTION="1")
        assert "leave out daemon=True" in said["refused"]
