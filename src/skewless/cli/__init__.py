"""The command line: `skewless demo`, `run`, `compare`, `simulate`, `check`, and what there is."""

from __future__ import annotations

# Each module adds its commands to the application, in the order in which `--help` lists them.
from skewless.cli import checking, comparing, demo, listing, running, simulating  # noqa: F401
from skewless.cli.application import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line."""
    app()
