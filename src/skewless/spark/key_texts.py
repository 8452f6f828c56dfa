"""A key as text, for people: in the reports of workers and in lists of hot keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa

#: A report keeps this many characters of the text of a key.
LONGEST_TEXT = 80


class ListedKey(NamedTuple):
    """One of the heaviest keys in the report of a worker, which keeps it as a list of JSON."""

    text: str
    records: int
    hashed: int

    def as_json(self) -> list[Any]:
        """Return the row for a report, with a text that is not too long.

        >>> ListedKey("a", 3, 7).as_json()
        ['a', 3, 7]
        """
        return [self.text[:LONGEST_TEXT], self.records, self.hashed]


def key_text(parts: Iterable[Any]) -> str:
    """Return a key as text, with commas between its parts.

    >>> key_text([pa.scalar("a"), pa.scalar(None, pa.int64()), 3])
    'a, null, 3'
    """
    found = (_in_python(part) if isinstance(part, pa.Scalar) else part for part in parts)
    return ", ".join("null" if one is None else str(one) for one in found)


def _in_python(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError):  # a time beyond Python's dates
        if not pa.types.is_temporal(value.type):
            return f"a {value.type} that Python cannot hold"
        return value.cast(pa.string()).as_py()
