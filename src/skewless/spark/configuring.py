"""A Spark session for skewless, and the settings that it needs."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from skewless.plumbing.arguments import shown
from skewless.spark import worker_python
from skewless.spark.finding_java import find_java
from skewless.spark.session_arguments import require_session
from skewless.spark.worker_python import DAEMON, DAEMON_SETTING, choose_python

__all__ = ["SETTINGS", "configure", "find_java", "session"]

#: Settings that `configure` makes. Results are exact without them, except for the checksums, which
#: are on by default from Spark 4.3. `configure` also chooses the daemon.
SETTINGS = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # If this is on, Spark converts rows from a columnar scan to columns and back around a Python
    # function. Routing then costs several times as much.
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
    # With adaptive execution, the stages of a micro-batch become jobs of their own, and Spark plans
    # again after each, which takes much of the time of a small micro-batch of `process`.
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # If a retried task sends other records than before, the tasks that read them start again.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true",
}

_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
}


def configure(builder: Any, *, daemon: bool | None = None) -> Any:
    """Return your session builder with the settings that skewless needs.

    Parameters
    ----------
    builder
        `SparkSession.builder`, or what its methods return.
    daemon
        Whether Python workers are forked from skewless's daemon, which has the kernels loaded. With
        the daemon, no Python function of the session can run on a machine without skewless. None:
        only on a local master whose Python has skewless; that is checked when the session starts.
        True: always, for clusters on which skewless is installed.

    Examples
    --------
    >>> built = configure(SparkSession.builder.appName("mine"), daemon=True)
    >>> built._options["spark.python.daemon.module"]
    'skewless.spark.daemon'
    """
    # The builder of the classic session, of Spark Connect, or a wrapper of either.
    if isinstance(builder, type) or not all(
        callable(getattr(builder, member, None)) for member in ("config", "getOrCreate")
    ):
        raise ValueError(f"builder must be SparkSession.builder, not {shown(builder)}")
    builder = _with(builder, SETTINGS | (DAEMON if daemon else {}))
    start = builder.getOrCreate

    def get_or_create() -> Any:
        # Not earlier: the master may be set after this.
        _choose_python(builder, daemon)
        return start()

    builder.getOrCreate = get_or_create
    return builder


def _with(builder: Any, settings: Mapping[str, str]) -> Any:
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def _choose_python(builder: Any, daemon: bool | None) -> None:
    """Give workers on this machine the driver's Python, and our daemon if it has skewless."""
    options = getattr(builder, "_options", {})  # a wrapper of Spark's builder has none
    is_local = worker_python.is_local(worker_python.master_of(options))
    if worker_python.context_here() is not None or not is_local:
        return
    python = choose_python(options)
    if not worker_python.has_skewless(python):
        missing = worker_python.what_to_install(python)
        if daemon:  # no Python function of the session could run
            raise worker_python.WorkersLackSkewless(missing)
        warnings.warn(missing, stacklevel=3)
    elif daemon is None and DAEMON_SETTING not in options:
        _with(builder, DAEMON)


def session(
    name: str = "skewless",
    *,
    master: str = "local[*]",
    memory: str = "2g",
    settings: dict[str, str] | None = None,
) -> SparkSession:
    """Return a local session: Java found, Arrow on, RocksDB state, few partitions, quiet.

    Parameters
    ----------
    name
        What Spark calls the application.
    master
        Where it runs. `local[n]` has n task slots. If the work waits for an outside service, more
        slots than cores help.
    memory
        The memory of the Java process.
    settings
        Further settings of Spark; they override ours.
    """
    require_session(name, master, memory, settings)
    os.environ["JAVA_HOME"] = str(find_java())
    choose_python(settings or {})
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    slots = re.match(r"local\[(\d+)", master)
    n_partitions = os.cpu_count() if slots is None else int(slots[1])
    ours = {"spark.driver.memory": memory, "spark.sql.shuffle.partitions": str(n_partitions)}
    builder = configure(SparkSession.builder.appName(name).master(master))
    builder = _with(builder, {**_LOCAL, **ours, **(settings or {})})
    started: SparkSession = builder.getOrCreate()
    return started
