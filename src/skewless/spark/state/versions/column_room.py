"""Refuses columns that are too large for Arrow with one line, before Arrow fails on them.

Texts, binaries and lists have 32-bit offsets. Spark uses this form in both directions, so larger
types inside would only move the limit elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

#: The most bytes of text, and the most items of lists, that one column holds.
MOST = (1 << 31) - 1
#: What to do if there are too many records.
FEWER_RECORDS = (
    "use more workers, or smaller micro-batches, by maxFilesPerTrigger or maxOffsetsPerTrigger"
)


class ColumnTooLarge(RuntimeError):  # noqa: N818 - it is read as a sentence
    """A column would hold more than Arrow can; the message says which, and what to do."""


def require_room(tables: Sequence[pa.Table], what: str, advice: str) -> None:
    """Raise ColumnTooLarge if a column of these tables, put together, would be too large."""
    if sum(table.nbytes for table in tables) <= MOST:
        return
    sizes: dict[str, int] = {}
    for table in tables:
        for field, column in zip(table.schema, table.columns, strict=True):
            for chunk in column.chunks:
                for name, size in _sizes(chunk, field.name):
                    sizes[name] = sizes.get(name, 0) + size
    for name, size in sizes.items():
        if size > MOST:
            raise ColumnTooLarge(
                f"{what}: column {name!r} would hold {size:,} bytes or items, and a column of "
                f"Arrow holds at most {MOST:,}: {advice}"
            )


def is_too_large(error: pa.ArrowException) -> bool:
    """Return whether Arrow has failed because a column would be too large."""
    text = str(error)
    return isinstance(error, pa.ArrowCapacityError) or "offset overflow" in text


def _sizes(array: Any, name: str) -> Iterator[tuple[str, int]]:
    """Yield the parts of a column that are addressed by 32 bits, with what they hold."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        yield from _sizes(array.storage, name)
    elif pt.is_dictionary(kind):
        yield from _sizes(array.dictionary, name)
    elif pt.is_string(kind) or pt.is_binary(kind):
        yield name, array.nbytes
    elif pt.is_list(kind) or pt.is_map(kind):
        items = (
            array.values
            if pt.is_list(kind)
            else pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
        )
        first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
        items = items.slice(first, last - first)
        yield name, len(items)
        yield from _sizes(items, f"{name}.item")
    elif pt.is_struct(kind):
        for number in range(kind.num_fields):
            field = kind.field(number)
            yield from _sizes(array.field(number), f"{name}.{field.name}")
