"""Arguments of users: read, or refused with one line that has the name and what is allowed."""

from __future__ import annotations

import numbers
import os
from decimal import Decimal, InvalidOperation
from typing import Any

#: The largest whole number that an array can hold.
LARGEST = (1 << 63) - 1
#: The largest seed.
LARGEST_SEED = (1 << 64) - 1
#: The most workers: Spark cannot shuffle to more partitions.
MOST_WORKERS = (1 << 24) - 1
_MOST_DIGITS = 30
_LONGEST = 120


def shown(value: object) -> str:
    """Return any value as one short line of a message.

    >>> shown("a"), len(shown("x" * 1000))
    ("'a'", 120)
    """
    try:
        text = " ".join(repr(value).splitlines())
    except Exception:  # a number of thousands of digits has no text
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def printable(text: str) -> str:
    """Return a text of somebody else as a terminal may show it, on one line.

    >>> printable("a\\x1b[2J\\nb")
    'a?[2J?b'
    """
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def whole_number(text: str) -> int:
    """Read a count: `1000`, `1_000` or `1e3`.

    >>> whole_number("1e6")
    1000000
    """
    try:
        return int(text)
    except ValueError:
        # Exact, where a float would change the last digits.
        try:
            number = Decimal(text.strip())
        except InvalidOperation:
            number = Decimal("nan")
        if (
            not number.is_finite()
            or number.adjusted() > _MOST_DIGITS
            or number != number.to_integral_value()
        ):
            raise ValueError(f"{shown(text)} is not a whole number") from None
        return int(number)


def whole(value: object, argument: str, *, least: int = 0, most: int | None = None) -> int:
    """Return a whole number in a range, given as a number or as text.

    >>> whole("1e3", "workers", least=1)
    1000
    >>> whole(True, "workers")
    Traceback (most recent call last):
        ...
    ValueError: workers must be a whole number, not True
    """
    number = as_whole(value)
    if number is None:
        raise ValueError(f"{argument} must be a whole number, not {shown(value)}")
    if not least <= number <= (LARGEST if most is None else most):
        if most is not None:
            allowed = f"{least:,} … {most:,}"
        else:
            allowed = f"at least {least:,}" if number < least else f"at most {LARGEST:,}"
        raise ValueError(f"{argument} must be {allowed}, not {shown(number)}")
    return number


def as_whole(value: object) -> int | None:
    """Return a number or text as an integer; None if it is not a whole number."""
    if isinstance(value, str):
        try:
            return whole_number(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    if isinstance(value, numbers.Integral):
        return int(value)
    try:
        number = float(value)
        return int(number) if number.is_integer() else None
    except (OverflowError, ValueError):  # infinity, and what is not a number
        return None


def seed_number(value: object, argument: str = "seed") -> int:
    """Return a seed: a whole number of at least 0 that fits into 64 bits."""
    number = as_whole(value)
    if number is not None and number > LARGEST_SEED:
        raise ValueError(f"{argument} must be at most {LARGEST_SEED:,}, not {shown(value)}")
    if number is not None and number < 0:
        raise ValueError(f"{argument} must be at least 0, not {shown(value)}")
    return whole(value, argument, most=LARGEST_SEED)


def text(value: object, argument: str, what: str = "a text") -> str:
    """Return a text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{argument} must be {what}, not {shown(value)}")
    return value


def path_text(value: Any, argument: str, what: str = "a path") -> str:
    """Return a path as text; it may be given as text or as a path object."""
    found = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(found, str) or not found.strip() or "\0" in found:
        raise ValueError(f"{argument} must be {what}, not {shown(value)}")
    return found
