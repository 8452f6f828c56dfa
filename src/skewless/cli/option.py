"""Options of commands, each declared in one line."""

from __future__ import annotations

from typing import Any

import typer


def option(default: Any, help: str, *names: str, **more: Any) -> Any:
    """Declare an option: its default (`...`: it must be given), its help, and other names.

    `more` is for `typer.Option`.
    """
    return typer.Option(default, *names, help=help, **more)
