"""The command line: `skewless demo`, `run`, `compare`, `simulate`, `reproduce`, `check`, lists."""

from __future__ import annotations

# Each module adds its commands to the application, in the order in which `--help` lists them.
from skewless.cli import (  # noqa: F401
    checking,
    comparing,
    demo,
    listing,
    reproducing,
    running,
    simulating,
)
from skewless.cli.application import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line."""
    app()
