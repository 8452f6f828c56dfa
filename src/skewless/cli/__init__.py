"""The command line: `skewless demo`, `run`, `dashboard`, `diagnose`, `simulate` and more."""

from __future__ import annotations

# Each module adds its commands to the application, in the order in which `--help` lists them.
from skewless.cli import (  # noqa: F401
    checking,
    comparing,
    demo,
    diagnosing,
    listing,
    live,
    reproducing,
    run_commands,
    simulating,
)
from skewless.cli.application import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line."""
    app()
