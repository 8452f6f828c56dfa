"""Hypothesis values of many Arrow types, nulls and awkward ones among them."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

UTC = datetime.timezone.utc


class Values(NamedTuple):
    """A type and how to make values of it."""

    type: pa.DataType
    values: st.SearchStrategy[Any]


def decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    bound = 10**digits - 1
    units = st.integers(-bound, bound) | st.integers(-3, 3)
    # A tuple, because arithmetic would round to 28 digits.
    return units.map(lambda u: Decimal((u < 0, tuple(int(d) for d in str(abs(u))), -scale)))


_FLOATS = st.floats() | st.sampled_from([0.0, -0.0, 1.0, float("nan"), float("inf")])
_FLOAT32 = st.floats(width=32) | st.sampled_from([0.0, -0.0, float("nan")])
_TEXT = st.text(max_size=4) | st.sampled_from(["", "a", "ä", "Z", "東京", "\U0001f600", "\uffff"])
_MOMENTS = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1))
_SMALL = st.integers(-2, 2)
_STRUCT = pa.struct([("a", pa.int32()), ("b", pa.float64())])

ORDERED: dict[str, Values] = {
    "bigint": Values(pa.int64(), st.integers(-(2**63), 2**63 - 1) | _SMALL),
    "int": Values(pa.int32(), st.integers(-(2**31), 2**31 - 1) | _SMALL),
    "tinyint": Values(pa.int8(), st.integers(-128, 127)),
    "uint64": Values(pa.uint64(), st.integers(0, 2**64 - 1)),
    "double": Values(pa.float64(), _FLOATS),
    "float": Values(pa.float32(), _FLOAT32),
    "float16": Values(pa.float16(), st.floats(width=16)),
    "boolean": Values(pa.bool_(), st.booleans()),
    "string": Values(pa.string(), _TEXT),
    "large string": Values(pa.large_string(), _TEXT),
    "dictionary": Values(pa.dictionary(pa.int32(), pa.string()), _TEXT),
    "binary": Values(pa.binary(), st.binary(max_size=3)),
    "fixed binary": Values(pa.binary(2), st.binary(min_size=2, max_size=2)),
    "decimal(9,2)": Values(pa.decimal128(9, 2), decimals(9, 2)),
    "decimal(18,0)": Values(pa.decimal128(18, 0), decimals(18, 0)),
    "decimal(38,10)": Values(pa.decimal128(38, 10), decimals(38, 10)),
    "date": Values(pa.date32(), st.dates(datetime.date(1600, 1, 1))),
    "timestamp": Values(
        pa.timestamp("us", tz="UTC"), _MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC))
    ),
    "timestamp_ntz": Values(pa.timestamp("us"), _MOMENTS),
    "duration": Values(
        pa.duration("us"),
        st.timedeltas(datetime.timedelta(days=-9), datetime.timedelta(days=9)),
    ),
    "time": Values(pa.time64("us"), st.times()),
    "void": Values(pa.null(), st.none()),
    "struct": Values(
        _STRUCT,
        st.fixed_dictionaries(
            {"a": st.none() | _SMALL, "b": st.none() | st.sampled_from([0.5, -1.0, float("nan")])}
        ),
    ),
    "array": Values(pa.list_(pa.int64()), st.lists(st.none() | _SMALL, max_size=3)),
    "array of text": Values(pa.large_list(pa.string()), st.lists(_TEXT, max_size=2)),
    "fixed array": Values(pa.list_(pa.int8(), 2), st.lists(_SMALL, min_size=2, max_size=2)),
    "array of arrays": Values(
        pa.list_(pa.list_(pa.int64())),
        st.lists(st.none() | st.lists(_SMALL, max_size=2), max_size=2),
    ),
}
MAPS = Values(pa.map_(pa.string(), pa.int32()), st.dictionaries(st.sampled_from("ab"), _SMALL))
GROUPED: dict[str, Values] = {
    **ORDERED,
    "map": MAPS,
    "struct of map": Values(
        pa.struct([("m", MAPS.type)]), st.fixed_dictionaries({"m": st.none() | MAPS.values})
    ),
    "calendar interval": Values(pa.month_day_nano_interval(), st.tuples(_SMALL, _SMALL, _SMALL)),
}


def keyed(kind: Values) -> st.SearchStrategy[list[tuple[int, Any]]]:
    """Return records (key, value or null) with few keys."""
    return st.lists(st.tuples(st.integers(0, 3), st.none() | kind.values), max_size=20)


def columns_of(records: list[tuple[Any, ...]], *types: pa.DataType) -> list[Any]:
    """Return the columns of records without their keys."""
    return [pa.array([row[i + 1] for row in records], kind) for i, kind in enumerate(types)]
