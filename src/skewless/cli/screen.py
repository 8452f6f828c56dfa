"""What people see: the console, progress bars, and small bars in a table."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_BLOCKS = "▁▂▃▄▅▆▇█"


def console() -> Console:
    """Return standard output; a file or a pipe has no width, so it gets enough."""
    return Console(width=None if sys.stdout.isatty() else 160)


def progress_bar() -> Progress:
    """Return bars on standard error, which go away when all is done."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def small_bars(values: Sequence[float], highest: float) -> str:
    """Return one character per value, as high as its share of `highest`.

    >>> small_bars([0, 1, 4, 8], highest=8)
    '▁▂▄█'
    """
    top = len(_BLOCKS) - 1
    heights = [round(top * value / highest) if highest > 0 else 0 for value in values]
    return "".join(_BLOCKS[min(top, max(0, height))] for height in heights)


def bytes_text(size: float) -> str:
    """Return a size as people read it.

    >>> bytes_text(2048)
    '2 KiB'
    """
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
