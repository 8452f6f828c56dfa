"""The command line: `skewless demo`, `dashboard`, `diagnose`, `simulate` and more."""

from __future__ import annotations

# Each module adds its commands to the application.
from skewless.cli import compiling, demo, listing, live, simulating  # noqa: F401
from skewless.cli.application import app
from skewless.cli.diagnosing import keys, logs  # noqa: F401

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line."""
    app()
