"""The Typer application of all commands: how it refuses bad input, and what commands need."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import skewless
from skewless.plumbing.private_files import NoFolderForKernels

# The error class for bad options; Typer has no public name for it.
_UsageError: type[Any] = typer.BadParameter.__mro__[1]


class OneLine(TyperGroup):
    """Commands whose errors are one line each, including errors in options."""

    def main(self, *args: Any, standalone_mode: bool = True, **settings: Any) -> Any:
        """Run a command; exit with its code in standalone mode, else raise."""
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **settings)  # type: ignore[misc]
        try:
            code = super().main(*args, standalone_mode=False, **settings)  # type: ignore[misc]
        except NoFolderForKernels as error:  # found when modules with kernels are imported
            code = stopped(str(error), 2).exit_code
        except typer.Abort:
            code = stopped("aborted", 1).exit_code
        except _UsageError as error:
            if type(error).__name__ == "NoArgsIsHelpError":
                error.show()
                code = 2
            else:
                code = stopped(error.format_message(), 2).exit_code
        sys.exit(code if isinstance(code, int) else 0)


app = typer.Typer(
    cls=OneLine,
    help="Which worker gets this record? Skew-aware partitioning of keyed streams.",
    no_args_is_help=True,
    rich_markup_mode=None,  # an error is one plain line, even in a log file
    pretty_exceptions_enable=False,
)


@contextlib.contextmanager
def refusing_bad_input() -> Iterator[None]:
    """Turn an error in the input into one line and exit code 2."""
    try:
        yield
    except MemoryError as error:
        raise stopped(f"not enough memory: {error}", 2) from None
    except (ValueError, TypeError, OSError) as error:
        raise stopped(str(error), 2) from None


def stopped(message: str, code: int) -> typer.Exit:
    """Print the message on one line; return the exception that exits with `code`."""
    print(f"skewless: {' '.join(message.split())}", file=sys.stderr)
    return typer.Exit(code)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"skewless {skewless.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Which worker gets this record? Skew-aware partitioning of keyed streams."""


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
    missing = "this needs PySpark ({name} is missing): install skewless with its extra 'spark'"
    return _needing(("pyspark", "py4j", "pandas"), missing + older)


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
    master: str, scratch: Path, strategies: list[str], settings: dict[str, str]
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
