"""Optional packages that some commands need, checked before they begin."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from skewless.cli.application import stopped


@contextlib.contextmanager
def needing_bokeh() -> Iterator[None]:
    """Exit with code 2 and one line that says what to install if Bokeh is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "bokeh":
            raise
        raise stopped(
            "the page with the plots needs Bokeh: install skewless with its extra 'dashboard'", 2
        ) from None


@contextlib.contextmanager
def needing_spark() -> Iterator[None]:
    """Exit with code 2 and one line that says what to install if PySpark is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("pyspark", "py4j", "pandas"):
            raise
        older = " on Python 3.11 or later" if sys.version_info < (3, 11) else ""
        raise stopped(
            f"this needs PySpark ({error.name} is missing): install skewless with its extra "
            f"'spark'{older}",
            2,
        ) from None
