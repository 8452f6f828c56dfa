"""A Spark session for a command: quiet, with its files in a folder that goes away."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from skewless.cli.application import stopped
from skewless.cli.needs import needing_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a folder that is removed at the end, also after an error or an interrupt."""
    with tempfile.TemporaryDirectory(prefix="skewless-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def require_spark() -> None:
    """End with one line and exit code 2 unless there are PySpark and a Java for it."""
    with needing_spark():
        from skewless.spark.session import find_java
    try:
        find_java()
    except RuntimeError as error:
        raise stopped(str(error), 2) from None


@contextlib.contextmanager
def spark_session(master: str, scratch: Path, warm: str, **settings: str) -> Iterator[SparkSession]:
    """Yield a session and stop it; what Spark refuses becomes one line and exit code 1.

    `warm` names the strategies whose kernels Spark's Python workers load as they start.
    """
    from pyspark.errors import PySparkException

    from skewless.spark.session import session

    os.environ["SKEWLESS_WARM"] = warm
    chosen = {
        "spark.local.dir": str(scratch / "spark"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        **settings,
    }
    scratch.mkdir(exist_ok=True)
    said = scratch / "spark.log"
    try:
        with _said_to(said):
            spark = session("skewless", master=master, settings=chosen)
    except Exception as error:
        reason = _first_line(error)
        if "JAVA_GATEWAY_EXITED" in reason:  # Java said why before it went
            reason = (said.read_text(errors="replace").strip().splitlines() or [reason])[-1]
        raise stopped(f"Spark did not start: {reason}", 1) from None
    try:
        yield spark
    except PySparkException as error:
        raise stopped(f"Spark refused: {_first_line(error)}", 1) from None
    finally:
        spark.stop()


@contextlib.contextmanager
def _said_to(path: Path) -> Iterator[None]:
    """Send what processes that are started here print as errors to a file, for as long as they run.

    Java writes stack traces of its own about every error that we show in one line.
    """
    kept = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
