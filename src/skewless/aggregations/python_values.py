"""Values of Python as Arrow columns, and back; errors name the class of the user."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt


def class_name(aggregator: Any) -> str:
    """Return the name of the user's class, even if a class of ours wraps it; a text is a name."""
    if isinstance(aggregator, str):
        return aggregator
    return type(getattr(aggregator, "wrapped", aggregator)).__name__


def to_arrow(values: Iterable[Any], kind: pa.DataType, owner: object, what: str) -> Any:
    """Return Python values as an Arrow array, or raise a `ValueError` that names their owner."""
    values, name = list(values), class_name(owner)
    if _holds_integers(kind):
        for value in values:
            if _has_fraction(value, kind):
                raise ValueError(
                    f"{name}: the {what} {value!r} is not of the declared type {kind}: "
                    "a whole number would lose its fraction"
                )
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        culprit = next((value for value in values if not _fits(value, kind)), values)
        raise ValueError(
            f"{name}: the {what} {culprit!r} is not of the declared type {kind}: {error}"
        ) from error


def _holds_integers(kind: pa.DataType) -> bool:
    inner = (kind.field(i).type for i in range(kind.num_fields))
    return pt.is_integer(kind) or any(_holds_integers(part) for part in inner)


def _has_fraction(value: Any, kind: pa.DataType) -> bool:
    """Return whether a float for an integer type has a fraction, which Arrow silently drops."""
    if pt.is_integer(kind):
        return isinstance(value, float | np.floating) and not float(value).is_integer()
    if pt.is_struct(kind) and isinstance(value, dict):
        return any(_has_fraction(value.get(field.name), field.type) for field in kind)
    if pt.is_map(kind) and isinstance(value, dict):
        keys, items = (kind.key_type, value.keys()), (kind.item_type, value.values())
        return any(_has_fraction(part, inner) for inner, parts in (keys, items) for part in parts)
    if pt.is_list(kind) and isinstance(value, list | tuple):
        return any(_has_fraction(part, kind.value_type) for part in value)
    return False


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.array([value], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return True


def to_python(column: Any) -> list[Any]:
    """Return the values of an Arrow array, or the rows of a table; a map is a dict."""
    try:
        values: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"a text is not valid UTF-8 and cannot become a str of Python: {error.object!r}. "
            "Repair it with pyspark.sql.functions.make_valid_utf8, or work on Arrow columns "
            "(Processor instead of KeyProcessor, VectorAggregator instead of Aggregator)"
        ) from None
    return values
