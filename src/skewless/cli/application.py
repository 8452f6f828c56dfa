"""The application that the commands belong to, and how it refuses bad input."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Annotated

import typer

import skewless

app = typer.Typer(
    help="Which worker gets this record? Skew-aware partitioning of keyed streams.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # an error is one plain line, also in a log file
    pretty_exceptions_enable=False,
)


@contextlib.contextmanager
def refusing_bad_input() -> Iterator[None]:
    """Turn what is wrong with the input into one line and exit code 2."""
    try:
        yield
    except (ValueError, TypeError, OSError) as error:
        raise stopped(str(error), 2) from None


def stopped(message: str, code: int) -> typer.Exit:
    """Print one line about what went wrong; return what ends the program with `code`."""
    print(f"skewless: {message}", file=sys.stderr)
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
