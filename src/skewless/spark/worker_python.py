"""The Python of Spark's workers: which one it is, and whether skewless is installed in it."""

from __future__ import annotations

import argparse
import functools
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import functions as F

import skewless

DAEMON_SETTING = "spark.python.daemon.module"
#: Python workers forked from a process that has the kernels loaded.
DAEMON = {
    DAEMON_SETTING: "skewless.spark.daemon",
    # `python -m` puts the working folder first in the path. The daemon puts it last.
    "spark.executorEnv.PYTHONSAFEPATH": "1",
}
#: How many tasks look for skewless on a cluster.
_TASKS = 16
_LONGEST_S = 60


class WorkersLackSkewless(RuntimeError):  # noqa: N818 - it is read as a sentence
    """The Python of Spark's workers has no skewless; the message says what to install."""


def master_of(options: Mapping[str, str]) -> str:
    """Return the master of a session with these options, found as Spark finds it."""
    remote = options.get("spark.remote") or os.environ.get("SPARK_REMOTE")
    if remote:
        return remote
    if "spark.master" in options:
        return options["spark.master"]
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # started by spark-submit
        from pyspark import SparkConf, SparkContext

        SparkContext._ensure_initialized()
        return str(SparkConf().get("spark.master", "local[*]"))
    submitted = _submitted(shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")))
    return submitted or _default_master() or os.environ.get("MASTER") or "local[*]"


def context_here() -> Any:
    """Return the SparkContext of this process; None before it starts, and in clients of Connect."""
    try:
        from pyspark import SparkContext
    except ImportError:  # the package pyspark-client has none
        return None
    return SparkContext._active_spark_context


def is_local(master: str) -> bool:
    """Return whether Python workers run on this machine.

    >>> [is_local(one) for one in ("local", "local[2,4]", "local-cluster[2,1,1024]", "yarn")]
    [True, True, True, False]
    """
    return re.fullmatch(r"local(\[.*\])?|local-cluster\[.*\]", master) is not None


def choose_python(options: Mapping[str, str]) -> str:
    """Return the Python of the workers: the one that the user set, or that of the driver.

    When Python runs a script, Spark only reads PYSPARK_PYTHON; without it, Spark takes any
    `python3`. So the choice is written there.
    """
    asked = options.get("spark.pyspark.python")
    return os.environ.setdefault("PYSPARK_PYTHON", asked or sys.executable)


@functools.lru_cache(maxsize=32)
def has_skewless(python: str) -> bool:
    """Return whether a Python of this machine finds skewless from any working folder."""
    program = "import importlib.util as u, sys; sys.exit(u.find_spec('skewless') is None)"
    options: Any = {"stdin": subprocess.DEVNULL, "capture_output": True, "timeout": _LONGEST_S}
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    try:
        subprocess.run([python, "-c", program], env=environment, check=True, **options)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def require_skewless(spark: Any) -> None:
    """Raise WorkersLackSkewless unless the workers have skewless; looks once per application."""
    application = spark.conf.get("spark.app.id", None)
    if application not in _CHECKED:
        _check(spark)
        _CHECKED.add(application)


_CHECKED: set[str | None] = set()


def _check(spark: Any) -> None:
    ours = spark.conf.get(DAEMON_SETTING, None) == DAEMON[DAEMON_SETTING]
    context = context_here()
    # A Spark Connect server on another machine may report a local master too.
    if context is not None and is_local(spark.conf.get("spark.master", None) or ""):
        if not has_skewless(context.pythonExec):
            raise WorkersLackSkewless(what_to_install(context.pythonExec))
        return
    try:
        found = _found_by_workers(spark)
    except Exception as error:
        if ours and "daemon" in str(error):
            raise WorkersLackSkewless(
                f"{what_to_install('python')}; or leave out daemon=True in configure: with it, "
                "no Python function of this session can run"
            ) from None
        raise
    for python, version in found:
        if version is None:
            raise WorkersLackSkewless(what_to_install(python))
        if version not in ("", skewless.__version__):
            raise WorkersLackSkewless(
                f"the workers' Python {python} has skewless {version}, and the driver has "
                f"{skewless.__version__}: install the same version on both"
            )


def what_to_install(python: str) -> str:
    """Return the message that says what is missing, and what to do."""
    return (
        f"skewless is not installed in the workers' Python, {python}: "
        f"install version {skewless.__version__} there on each machine, or set PYSPARK_PYTHON to "
        "a Python that has it"
    )


def _found_by_workers(spark: Any) -> set[tuple[str, str | None]]:
    """Return the Pythons of the workers, each with its version of skewless.

    None: skewless is missing. An empty text: skewless is there, but not installed as a package.
    """

    # A nested function is pickled by value, so workers without skewless can load it.
    def look(_: int) -> str:
        import importlib.metadata
        import importlib.util
        import sys

        if importlib.util.find_spec("skewless") is None:
            return f"{sys.executable}\n-"
        try:
            return f"{sys.executable}\n{importlib.metadata.version('skewless')}"
        except importlib.metadata.PackageNotFoundError:
            return f"{sys.executable}\n"

    # Not with Arrow, which those workers may lack too.
    looked = F.udf(look, "string", useArrow=False)
    rows = spark.range(0, _TASKS, 1, _TASKS).select(looked("id")).collect()
    told = {tuple(row[0].split("\n")) for row in rows}
    return {(python, None if version == "-" else version) for python, version in told}


def _submitted(arguments: list[str]) -> str | None:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--master", nargs="?")
    parser.add_argument("--conf", nargs="?", action="append", default=[])
    found, _ = parser.parse_known_args(arguments)
    settings = dict(str(one).partition("=")[::2] for one in found.conf)
    return found.master or settings.get("spark.master")


def _default_master() -> str | None:
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    file = Path(os.environ.get("SPARK_CONF_DIR") or Path(home) / "conf") / "spark-defaults.conf"
    try:
        text = file.read_text(encoding="utf-8")
    except OSError:  # there is none, or it cannot be read
        return None
    found = re.search(r"^\s*spark\.master(?:\s*[=:]\s*|\s+)(\S+)\s*$", text, re.MULTILINE)
    return found.group(1) if found else None
