"""Numbers and tables in plain text, as documents, pages and tables show them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

#: Longer texts are cut: a table is for looking at.
_LONGEST = 40


def text_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return the rows below their headings; every column but the first is set to the right.

    >>> print(text_table(["strategy", "ratio"], [["pkg", "3.2"], ["w-choices", "1"]]))
    strategy   ratio
    pkg          3.2
    w-choices      1
    """
    lines = [[printable(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def printable(text: str, longest: int = _LONGEST) -> str:
    """Return `text` on one line, without control characters, cut if it is long.

    >>> printable("two\\nlines"), printable("a long text", longest=6)
    ('two\\\\nlines', 'a lon…')
    """
    shown = "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def percent(share: float | None) -> str:
    """Return a share as people read it.

    >>> percent(0.1234), percent(None)
    ('12.3 %', '–')
    """
    return "–" if share is None else f"{100 * share:.1f} %"


def number(value: float | None, digits: int = 0) -> str:
    """Return a number as people read it.

    >>> number(1234567), number(1.23456, 3), number(None)
    ('1,234,567', '1.235', '–')
    """
    return "–" if value is None else f"{value:,.{digits}f}"


def significant(number: float | None) -> str:
    """Return a number with three digits, so that small changes stay invisible; a dash for None.

    >>> [significant(x) for x in (0.0123456, 12345.6, 1.0, 2.5e-7, None)]
    ['0.0123', '12,300', '1', '2.5e-07', '–']
    """
    if number is None:
        return "–"
    rounded = float(f"{number:.2e}")
    if 100 <= abs(rounded) < 1e9:
        return f"{rounded:,.0f}"
    return f"{rounded:.3g}"


def seconds_text(seconds: float) -> str:
    """Return a time in a suitable unit; a dash if it is not known.

    >>> seconds_text(12.0), seconds_text(0.00123), seconds_text(2e-5), seconds_text(2e-7)
    ('12 s', '1.23 ms', '20 µs', '200 ns')
    >>> seconds_text(0.0), seconds_text(math.nan)
    ('0 s', '–')
    """
    if not math.isfinite(seconds):
        return "–"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns" if seconds else "0 s"


def bytes_text(size: float) -> str:
    """Return a size in a suitable unit.

    >>> bytes_text(2_500), bytes_text(17), bytes_text(3e15)
    ('2.5 KB', '17 B', '3e+03 TB')
    """
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
