"""Values of Python as Arrow columns, and back; errors name the class of the user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from skewless.parameters import nearest
from skewless.plumbing.arguments import shown


def class_name(aggregator: Any) -> str:
    """Return the name of the user's class, even if a class of ours wraps it; a text is a name."""
    if isinstance(aggregator, str):
        return aggregator
    return type(getattr(aggregator, "wrapped", aggregator)).__name__


def to_arrow(values: Iterable[Any], kind: pa.DataType, owner: object, what: str) -> Any:
    """Return Python values as an Arrow array, or raise a `ValueError` that names their owner."""
    values, name = list(values), class_name(owner)
    if _have_fractions(values, kind):
        culprit = next(value for value in values if _have_fractions([value], kind))
        raise ValueError(
            f"{name}: the {what} {culprit!r} is not of the declared type {kind}: "
            "a whole number would lose its fraction"
        )
    if pt.is_struct(kind):
        dicts = (value for value in values if isinstance(value, Mapping))
        require_known(set().union(*dicts), [field.name for field in kind], owner, what)
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        culprit = next((value for value in values if not _fits(value, kind)), values)
        raise ValueError(
            f"{name}: the {what} {culprit!r} is not of the declared type {kind}: {error}"
        ) from error


def require_known(names: set[Any], known: list[str], owner: object, what: str) -> None:
    """Raise ValueError for a field that Arrow would leave out silently."""
    unknown = min(names - set(known), key=repr, default=None)
    if unknown is not None:
        message = f"unknown field {shown(unknown)}, which is no text"
        if isinstance(unknown, str):
            message = nearest(unknown, known, "field")
        raise ValueError(f"{class_name(owner)}: a {what} has an {message}; it may have {known}")


def _holds_integers(kind: pa.DataType) -> bool:
    inner = (kind.field(i).type for i in range(kind.num_fields))
    return pt.is_integer(kind) or any(_holds_integers(part) for part in inner)


def _have_fractions(values: list[Any], kind: pa.DataType) -> bool:
    """Return whether floats for integer types have fractions, which Arrow silently drops.

    Each field is one list of values, and nearly always the types in it answer for all of them.
    """
    if pt.is_integer(kind):
        if not any(issubclass(one, float | np.floating) for one in set(map(type, values))):
            return False
        floats = (value for value in values if isinstance(value, float | np.floating))
        return not all(float(value).is_integer() for value in floats)
    if not _holds_integers(kind):
        return False
    parts: list[tuple[pa.DataType, list[Any]]] = []
    if pt.is_list(kind):
        rows = (value for value in values if isinstance(value, list | tuple))
        parts = [(kind.value_type, list(chain.from_iterable(rows)))]
    dicts = [value for value in values if isinstance(value, dict)]
    if pt.is_struct(kind):
        parts = [(field.type, [value.get(field.name) for value in dicts]) for field in kind]
        tuples = [value for value in values if isinstance(value, tuple)]
        for (_, held), *given in zip(parts, *tuples, strict=False):  # Arrow counts the fields
            held.extend(given)
    elif pt.is_map(kind):
        items = chain.from_iterable(value.values() for value in dicts)
        parts = [(kind.key_type, list(chain.from_iterable(dicts))), (kind.item_type, list(items))]
    return any(_have_fractions(part, inner) for inner, part in parts)


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
