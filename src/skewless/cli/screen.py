"""Output for people: the console, progress bars, and small bars in a table."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

_BLOCKS = "▁▂▃▄▅▆▇█"

#: The option --json of every command that prints results.
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object per line, for programs.")
]


def print_json(told: dict[str, Any]) -> None:
    """Print one object on a line of its own."""
    print(json.dumps(told), flush=True)


def console() -> Console:
    """Return a console on standard output; a file or a pipe gets a fixed, large width."""
    # Names of columns, keys and operators may look like markup.
    return Console(width=None if sys.stdout.isatty() else 200, markup=False, highlight=False)


def number_table(*headings: str, left: str | None = None, **settings: Any) -> Table:
    """Return an empty table without lines; only the column `left` holds texts."""
    table = Table(box=None, **settings)
    for heading in headings:
        justify: Literal["left", "right"] = "left" if heading == left else "right"
        table.add_column(heading, justify=justify, no_wrap=True)
    return table


def progress_bar() -> Progress:
    """Return progress bars on standard error, which disappear at the end."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def small_bars(values: Sequence[float], fair: float, highest: float) -> str:
    """Return one character per value; steps are centred on `fair`, so equal loads look equal.

    `highest` is the largest value of all rows, which sets the scale.

    >>> small_bars([1, 5, 9, 20], fair=5, highest=20), small_bars([4.9, 5.1], fair=5, highest=20)
    ('▁▂▃▅', '▂▂')
    """
    top = len(_BLOCKS) - 1
    n_steps = max(1, int(top * fair / highest)) if highest > 0 else 1
    heights = [round(n_steps * value / fair) if fair > 0 else 0 for value in values]
    return "".join(_BLOCKS[min(top, height)] for height in heights)
