"""The first line of an error: Spark puts plans and traces below it."""

from __future__ import annotations


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its type if the message is empty."""
    return first_line_of(str(error), type(error).__name__)


def first_line_of(text: str, otherwise: str) -> str:
    r"""Return the first line that is not blank, or `otherwise`.

    >>> first_line_of("\n  no such column; \n'Project", "an error"), first_line_of("", "an error")
    ('no such column', 'an error')
    """
    lines = (line.strip() for line in text.splitlines() if line.strip())
    return next(lines, otherwise).rstrip(";")
