"""The Python of the workers: which one a session takes, and what happens if it lacks skewless."""

from __future__ import annotations

import os
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import SparkSession

import skewless
from skewless.spark import configure, worker_python
from skewless.spark.worker_python import DAEMON, DAEMON_SETTING, choose_python, master_of
from spark.scripts import REFUSED, SOURCES, said_by

ROUTED = """
workers = route(spark.range(0, 100, 1, 2), "id", strategy="own:Own", workers=4, column="to")
print("workers", workers.select("to").distinct().count(), sep="=")
"""
OWN = "from skewless.strategies.hash import Hash\n\nclass Own(Hash):\n    name = 'own'\n"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python that has nothing but its standard library."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / "python3"


@pytest.mark.spark
@pytest.mark.slow
def test_local_workers_take_the_drivers_python_and_no_file_hides_a_module(
    spark: SparkSession, tmp_path: Path, bare: Path
) -> None:
    """`spark` is there to skip without Java. Any `python3` of the path lacks what is needed."""
    (tmp_path / "own.py").write_text(OWN)
    for name in ("numpy", "pyarrow", "socket"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('hidden by the working folder')")
    said = said_by(
        ROUTED,
        tmp_path,
        PYSPARK_PYTHON=None,
        PYTHONPATH=str(SOURCES),
        PATH=f"{bare.parent}{os.pathsep}{os.environ['PATH']}",
    )
    assert said == {"warned": "[]", "python": sys.executable, "workers": "4"}


@pytest.mark.spark
@pytest.mark.slow
def test_workers_without_skewless_run_python_functions_and_say_what_to_install(
    spark: SparkSession, tmp_path: Path, bare: Path
) -> None:
    said = said_by(REFUSED, tmp_path, PYSPARK_PYTHON=str(bare), PYTHONPATH=None)
    line = worker_python.what_to_install(str(bare))
    assert said["warned"] == str([line])
    assert said["refused"] == line
    assert said["python"] == said["after"]
    assert Path(said["python"]).parent == bare.parent


class Builder:
    """As much of Spark's as is needed here."""

    def __init__(self, **options: str) -> None:
        self._options = {name.replace("_", "."): value for name, value in options.items()}

    def config(self, name: str, value: str) -> Builder:
        self._options[name] = value
        return self

    def getOrCreate(self) -> dict[str, str]:  # noqa: N802 - Spark's name
        return dict(self._options)


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Forget the session of the other tests, and all that says where Spark runs."""
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    for name in ("MASTER", "SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", "/no/such/folder")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    return monkeypatch


def started(builder: Any, *later: tuple[str, str]) -> dict[str, str]:
    configured = configure(builder)
    for name, value in later:
        configured.config(name, value)
    options: dict[str, str] = configured.getOrCreate()
    return options


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2,4]", "local-cluster[2,1,1024]"])
def test_local_masters_get_the_daemon_and_the_drivers_python(
    nothing_runs: pytest.MonkeyPatch, master: str
) -> None:
    assert DAEMON.items() <= started(Builder(spark_master=master)).items()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_without_a_master_the_session_is_local(nothing_runs: pytest.MonkeyPatch) -> None:
    assert DAEMON_SETTING in started(Builder())


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host"])
def test_clusters_keep_sparks_daemon_and_python(
    nothing_runs: pytest.MonkeyPatch, master: str
) -> None:
    before, after = (
        started(Builder(spark_master=master)),
        started(Builder(), ("spark.master", master)),
    )
    assert DAEMON_SETTING not in before
    assert DAEMON_SETTING not in after
    assert "PYSPARK_PYTHON" not in os.environ


def test_a_daemon_of_ones_own_stays(nothing_runs: pytest.MonkeyPatch) -> None:
    options = started(Builder(spark_master="local"), (DAEMON_SETTING, "mine"))
    assert options[DAEMON_SETTING] == "mine"


def test_a_python_that_was_asked_for_is_taken(nothing_runs: pytest.MonkeyPatch) -> None:
    asked = {"spark.pyspark.python": "/asked/python"}
    assert choose_python(asked) == os.environ["PYSPARK_PYTHON"] == "/asked/python"
    nothing_runs.setenv("PYSPARK_PYTHON", "/set/python")
    assert choose_python(asked) == "/set/python"  # Spark goes by the variable


def test_a_local_python_without_skewless_gets_a_warning_and_sparks_daemon(
    nothing_runs: pytest.MonkeyPatch, bare: Path
) -> None:
    nothing_runs.delenv("PYTHONPATH", raising=False)
    for python in (str(bare), "/no/such/python"):
        nothing_runs.setenv("PYSPARK_PYTHON", python)
        with pytest.warns(UserWarning, match="is not installed in the workers' Python"):
            assert DAEMON_SETTING not in started(Builder(spark_master="local"))


def test_the_master_is_found_where_spark_finds_it(
    nothing_runs: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert master_of({}) == "local[*]"
    nothing_runs.setenv("MASTER", "spark://variable")
    assert master_of({}) == "spark://variable"
    (tmp_path / "spark-defaults.conf").write_text("# spark.master no\nspark.master  spark://file\n")
    nothing_runs.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert master_of({}) == "spark://file"
    for arguments in (
        "--master spark://arguments pyspark-shell",
        "--master=spark://arguments pyspark-shell",
        "--conf spark.x=1 --conf spark.master=spark://arguments pyspark-shell",
    ):
        nothing_runs.setenv("PYSPARK_SUBMIT_ARGS", arguments)
        assert master_of({}) == "spark://arguments"
    assert master_of({"spark.master": "local"}) == "local"
    nothing_runs.setenv("SPARK_REMOTE", "sc://remote")
    assert master_of({"spark.master": "local"}) == "sc://remote"


class Cluster:
    """A session on a cluster whose workers were asked already."""

    conf: Any = None

    def __init__(self, **settings: str) -> None:
        self.conf = self
        self.settings = {"spark.master": "spark://host", "spark.app.id": str(id(self)), **settings}

    def get(self, name: str, default: str | None) -> str | None:
        return self.settings.get(name, default)


def test_workers_with_another_version_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for version, message in (
        ("0.0.1", r"has skewless 0\.0\.1, and the driver"),
        (None, "install version"),
    ):
        monkeypatch.setattr(
            worker_python, "_found_by_workers", lambda _, v=version: {("python", v)}
        )
        with pytest.raises(worker_python.WorkersLackSkewless, match=message) as refused:
            worker_python.require_skewless(Cluster())
        assert "\n" not in str(refused.value)
    for fine in (skewless.__version__, ""):
        monkeypatch.setattr(worker_python, "_found_by_workers", lambda _, v=fine: {("python", v)})
        worker_python.require_skewless(Cluster())


def test_workers_of_a_connect_server_are_asked_though_it_calls_itself_local(
    nothing_runs: pytest.MonkeyPatch,
) -> None:
    """The Python of this machine says nothing about the workers of another one."""
    nothing_runs.setattr(worker_python, "_found_by_workers", lambda _: {("python", None)})
    with pytest.raises(worker_python.WorkersLackSkewless, match="install version"):
        worker_python.require_skewless(Cluster(**{"spark.master": "local[*]"}))


def test_workers_are_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(
        worker_python, "_found_by_workers", lambda spark: asked.append(spark) or {("python", "")}
    )
    one = Cluster()
    worker_python.require_skewless(one)
    worker_python.require_skewless(one)
    assert asked == [one]


@pytest.mark.spark
def test_what_workers_tell_is_read(spark: SparkSession) -> None:
    (found,) = worker_python._found_by_workers(spark)
    assert found[1] in (skewless.__version__, "")
    assert found[0] == sys.executable
