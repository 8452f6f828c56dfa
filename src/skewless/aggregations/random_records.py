"""Small random records of any type that Spark's DDL can name, for checks."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from skewless.aggregations.types import parse_type

_RECORDS = 60
_NULLS = 0.15  # the share of nulls
_WORDS = ("", "a", "b", "ab", "Straße", "東京", "z" * 20)
_DAY_ONE = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)


def random_records(
    names: Sequence[str], types: Mapping[str, str | pa.DataType], rng: np.random.Generator
) -> pa.Table:
    """Return records with these columns, with repeated values and nulls.

    A column without a type is double. A type may be Spark's DDL text.
    """
    for name in types:
        if name not in names:
            raise ValueError(f"types names {name!r}, but the inputs are {', '.join(names)}")
    kinds = {name: parse_type(types.get(name, "double")) for name in names}
    if not kinds:  # the number of records needs a column
        return pa.table({"": pa.nulls(_RECORDS)})
    values = {name: [_value(kind, rng) for _ in range(_RECORDS)] for name, kind in kinds.items()}
    return pa.table(values, schema=pa.schema(kinds))


def _value(kind: pa.DataType, rng: np.random.Generator) -> Any:
    if pt.is_null(kind) or rng.random() < _NULLS:
        return None
    return _present(kind, rng)


def _present(kind: pa.DataType, rng: np.random.Generator) -> Any:
    """Return a value that is not null (in a list, map or struct there may be nulls)."""
    number = int(rng.integers(-100, 101))
    if pt.is_boolean(kind):
        return number > 0
    if pt.is_unsigned_integer(kind):
        return abs(number)
    if pt.is_integer(kind):
        return number
    if pt.is_floating(kind):
        return number / 8  # often repeated, and a sum of them is exact
    if pt.is_decimal(kind):
        return Decimal(number % 10 ** min(2, kind.precision)).scaleb(-kind.scale)
    if pt.is_string(kind) or pt.is_large_string(kind):
        return _WORDS[number % len(_WORDS)]
    if pt.is_binary(kind) or pt.is_large_binary(kind):
        return _WORDS[number % len(_WORDS)].encode()
    if pt.is_date(kind):
        return (_DAY_ONE + datetime.timedelta(days=number)).date()
    if pt.is_timestamp(kind):
        moment = _DAY_ONE + datetime.timedelta(seconds=number)
        return moment if kind.tz else moment.replace(tzinfo=None)
    if pt.is_struct(kind):
        return {field.name: _value(field.type, rng) for field in kind}
    if pt.is_map(kind):
        entries = range(number % 3)
        return {_present(kind.key_type, rng): _value(kind.item_type, rng) for _ in entries}
    if pt.is_list(kind) or pt.is_large_list(kind):
        return [_value(kind.value_type, rng) for _ in range(number % 4)]
    raise ValueError(f"no random values of type {kind}; give records instead")
