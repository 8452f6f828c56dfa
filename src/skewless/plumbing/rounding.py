"""Numbers as documents and pages show them."""

from __future__ import annotations

import math


def significant(number: float | None, digits: int = 3) -> str:
    """Return a number with few digits, so that small changes stay invisible; a dash for None.

    >>> [significant(x) for x in (0.0123456, 12345.6, 1.0, 2.5e-7, None)]
    ['0.0123', '12,300', '1', '2.5e-07', '–']
    """
    if number is None:
        return "–"
    rounded = float(f"{number:.{digits - 1}e}")
    if 10 ** (digits - 1) <= abs(rounded) < 1e9:
        return f"{rounded:,.0f}"
    return f"{rounded:.{digits}g}"


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
