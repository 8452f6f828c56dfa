"""Optional packages that some commands need, checked before they begin."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

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
