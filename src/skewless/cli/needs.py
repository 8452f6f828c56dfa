"""What commands need before they begin: optional packages, Java, a session, a scratch folder."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from skewless.cli.application import stopped


@contextlib.contextmanager
def _needing(packages: tuple[str, ...], message: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in packages:
            raise
        raise stopped(message.format(name=error.name), 2) from None


def needing_bokeh() -> contextlib.AbstractContextManager[None]:
    """Exit with code 2 and one line that says what to install if Bokeh is missing."""
    plots = "the page with the plots needs Bokeh: install skewless with its extra 'dashboard'"
    return _needing(("bokeh",), plots)


def needing_spark() -> contextlib.AbstractContextManager[None]:
    """Exit with code 2 and one line that says what to install if PySpark is missing."""
    older = " on Python 3.11 or later" if sys.version_info < (3, 11) else ""
    install = f"install skewless with its extra 'spark'{older}"
    missing = "this needs PySpark ({name} is missing): "
    return _needing(("pyspark", "py4j", "pandas"), missing + install)


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a folder that is removed at the end, even after an error or an interrupt."""
    with tempfile.TemporaryDirectory(prefix="skewless-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def require_spark() -> None:
    """Exit with code 2 and one line if PySpark, or a Java for it, is missing."""
    with needing_spark():
        from skewless.spark.configuring import find_java
    try:
        find_java()
    except RuntimeError as error:
        raise stopped(str(error), 2) from None


@contextlib.contextmanager
def spark_session(
    master: str, scratch: Path, strategies: list[str], **settings: str
) -> Iterator[Any]:
    """Yield a session for these strategies; what Spark refuses becomes one line, exit code 1."""
    from skewless import registry
    from skewless.apps.quiet_session import SparkFailed, quiet_session

    # The user's own strategies are loaded later, in the task.
    warm = ",".join(name for name in strategies if name in registry.names())
    try:
        with quiet_session(master, scratch, warm, settings) as spark:
            yield spark
    except SparkFailed as error:
        raise stopped(str(error), 1) from None
