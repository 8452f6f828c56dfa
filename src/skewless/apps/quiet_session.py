"""A Spark session for the command line: quiet, with its files in a given folder."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from skewless.spark import session
from skewless.spark.records import first_line


class SparkFailed(RuntimeError):  # noqa: N818 - it is read as a sentence
    """Spark did not start, or failed; the message says why in one line."""


@contextlib.contextmanager
def quiet_session(
    master: str, scratch: Path, warm: str, settings: Mapping[str, str]
) -> Iterator[SparkSession]:
    """Yield a session and stop it at the end; errors of Spark become SparkFailed.

    Its files go into the folder `scratch`. `warm` names strategies, separated by commas, whose
    kernels the Python workers load at their start. `settings` are further settings of Spark.
    """
    os.environ["SKEWLESS_WARM"] = warm
    chosen = {
        "spark.local.dir": str(scratch / "spark"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        **settings,
    }
    said = scratch / "spark.log"
    try:
        with _said_to(said):
            spark = session("skewless", master=master, settings=chosen)
    except Exception as error:
        reason = first_line(error)
        if "JAVA_GATEWAY_EXITED" in reason:  # Java has printed the reason
            reason = (said.read_text(errors="replace").strip().splitlines() or [reason])[-1]
        raise SparkFailed(f"Spark did not start: {reason}") from error
    if threading.current_thread() is threading.main_thread():
        # PySpark's handler calls Java in the middle of another call to Java, which breaks both.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Py4J logs a stack trace for every interrupted call.
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield spark
    except (PySparkException, Py4JError) as error:  # such as of Java that has ended
        java = getattr(error, "java_exception", None)  # Py4J's own first line names no reason
        reason = first_line(error if java is None else RuntimeError(java.toString()))
        raise SparkFailed(f"Spark failed: {reason}") from error
    finally:
        # If Java has ended, there is nothing to stop.
        with contextlib.suppress(Py4JError, ConnectionError):
            spark.stop()
        logging.disable(before)


@contextlib.contextmanager
def _said_to(path: Path) -> Iterator[None]:
    """Redirect standard error of processes that are started here to a file.

    Java prints a stack trace for every error that we show in one line.
    """
    kept = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
