"""A Spark session that is ready for skewless, and the settings that it needs."""

from __future__ import annotations

import os
import re
import sys
import warnings
from typing import Any

from pyspark.sql import SparkSession

from skewless.arguments import shown
from skewless.spark.finding_java import find_java
from skewless.spark.session_arguments import require_session
from skewless.spark.worker_python import (
    DAEMON,
    DAEMON_SETTING,
    WorkersLackSkewless,
    choose_python,
    context_here,
    has_skewless,
    is_local,
    master_of,
    what_to_install,
)

__all__ = ["SETTINGS", "configure", "find_java", "session"]

#: What skewless wants of any session; `configure` sets it, and none of it is needed for exactness
#: but the checksums, which Spark 4.3 has on by itself. `configure` also chooses the daemon.
SETTINGS = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # With this on, rows that come from a columnar scan go to columns and back on their way around a
    # Python function: routing then costs several times as much.
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # A retried task that sends other records than before makes its readers start again.
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
    """Return a session builder of yours with the settings that skewless wants.

    Parameters
    ----------
    builder
        What `SparkSession.builder` gives.
    daemon
        Whether Python workers are forked from skewless's daemon, which has the kernels loaded. No
        Python function of a session can run where the daemon is set and skewless is not
        installed. None: on a local master whose Python has skewless, which is looked at
        when the session starts. True: always; for clusters on which skewless is installed.

    Examples
    --------
    >>> built = configure(SparkSession.builder.appName("mine"), daemon=True)
    >>> built._options["spark.python.daemon.module"]
    'skewless.spark.daemon'
    """
    # Of the classic session, of Connect's, or one that wraps either.
    if isinstance(builder, type) or not all(
        callable(getattr(builder, member, None)) for member in ("config", "getOrCreate")
    ):
        raise ValueError(f"builder must be SparkSession.builder, not {shown(builder)}")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    if daemon:
        builder = _with_daemon(builder)
    start = builder.getOrCreate

    def get_or_create() -> Any:
        # Not earlier: the master may be set after this.
        _choose_python(builder, daemon)
        return start()

    builder.getOrCreate = get_or_create
    return builder


def _with_daemon(builder: Any) -> Any:
    for name, value in DAEMON.items():
        builder = builder.config(name, value)
    return builder


def _choose_python(builder: Any, daemon: bool | None) -> None:
    """Give workers on this machine the driver's Python, and our daemon if it has skewless."""
    options = getattr(builder, "_options", {})  # of builders that wrap Spark's nothing is known
    if context_here() is not None or not is_local(master_of(options)):
        return
    python = choose_python(options)
    if not has_skewless(python):
        if daemon:  # no Python function of the session could run
            raise WorkersLackSkewless(what_to_install(python))
        warnings.warn(what_to_install(python), stacklevel=3)
    elif daemon is None and DAEMON_SETTING not in options:
        _with_daemon(builder)


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
        Where it runs. `local[n]` has n task slots; with an outside call per record, more slots
        than cores are of use.
    memory
        Of the Java process.
    settings
        Further settings of Spark; they win over ours.
    """
    require_session(name, master, memory, settings)
    os.environ["JAVA_HOME"] = str(find_java())
    choose_python(settings or {})
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    slots = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?", master)
    n_slots = slots.group(1) if slots else None
    n_partitions = os.cpu_count() if n_slots in (None, "*") else int(str(n_slots))
    builder = configure(SparkSession.builder.appName(name).master(master))
    chosen = _LOCAL | {
        "spark.driver.memory": memory,
        "spark.sql.shuffle.partitions": str(n_partitions),
    }
    for setting, value in (chosen | (settings or {})).items():
        builder = builder.config(setting, value)
    started: SparkSession = builder.getOrCreate()
    return started
