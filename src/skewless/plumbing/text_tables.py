"""Tables in plain text."""

from __future__ import annotations

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
