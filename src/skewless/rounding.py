"""Numbers as documents and pages show them."""

from __future__ import annotations


def significant(number: float | None, digits: int = 3) -> str:
    """Return a number with few digits, so that small changes do not show; a dash for None.

    >>> [significant(x) for x in (0.0123456, 12345.6, 1.0, 2.5e-7, None)]
    ['0.0123', '12,300', '1', '2.5e-07', '–']
    """
    if number is None:
        return "–"
    rounded = float(f"{number:.{digits - 1}e}")
    if 10 ** (digits - 1) <= abs(rounded) < 1e9:
        return f"{rounded:,.0f}"
    return f"{rounded:.{digits}g}"
