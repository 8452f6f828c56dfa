"""A key as text, for people: in the reports of workers and in lists of hot keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa


def key_text(parts: Iterable[Any]) -> str:
    """Return a key as text, with commas between its parts.

    >>> key_text([pa.scalar("a"), pa.scalar(None, pa.int64()), 3])
    'a, null, 3'
    """
    return ", ".join(map(_part_text, parts))


def _part_text(value: Any) -> str:
    """Return one part of a key, a scalar of Arrow or a value of Python, as text."""
    found = _in_python(value) if isinstance(value, pa.Scalar) else value
    return "null" if found is None else str(found)


def _in_python(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError):  # a time beyond Python's dates
        if not pa.types.is_temporal(value.type):
            return f"a {value.type} that Python cannot hold"
        return value.cast(pa.string()).as_py()
