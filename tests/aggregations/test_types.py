"""Spark's DDL text, read into Arrow types."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skewless.aggregations import parse_fields, parse_type
from skewless.aggregations.types import widens


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("bigint", pa.int64()),
        ("INT", pa.int32()),
        (" smallint ", pa.int16()),
        ("tinyint", pa.int8()),
        ("double", pa.float64()),
        ("float", pa.float32()),
        ("string", pa.string()),
        ("binary", pa.binary()),
        ("boolean", pa.bool_()),
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestamp_ntz", pa.timestamp("us")),
        ("decimal(12, 3)", pa.decimal128(12, 3)),
        ("decimal(7)", pa.decimal128(7, 0)),
        ("decimal", pa.decimal128(10, 0)),
        ("array<double>", pa.list_(pa.float64())),
        ("map<string,array<int>>", pa.map_(pa.string(), pa.list_(pa.int32()))),
        (
            "struct<n: bigint NOT NULL, m: int not null>",
            pa.struct([("n", pa.int64()), ("m", pa.int32())]),
        ),
        ("struct<>", pa.struct([])),
        ("struct<n: bigint, m double>", pa.struct([("n", pa.int64()), ("m", pa.float64())])),
        ("struct<`a b``c`:date>", pa.struct([("a b`c", pa.date32())])),
        ("array<struct<d:decimal(3,1)>>", pa.list_(pa.struct([("d", pa.decimal128(3, 1))]))),
        (pa.float16(), pa.float16()),
    ],
    ids=str,
)
def test_types_mean_what_spark_means(text: str | pa.DataType, kind: pa.DataType) -> None:
    assert parse_type(text) == kind


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "position 0: expected a type"),
        ("strng", "unknown type 'strng'; did you mean 'string'"),
        ("array<int", "position 9: expected '>', found the end"),
        ("array", "expected '<', found the end"),
        ("int int", "position 4: unexpected 'int' after the end"),
        ("map<int>", "position 7: expected ',', found '>'"),
        ("struct<a: int, a: int>", "field 'a' occurs twice"),
        ("struct<a: int,>", "expected the name of a field"),
        ("struct<: int>", "expected the name of a field"),
        ("decimal(39, 0)", "digits must be 1"),
        ("decimal(3, 4)", "no more than the digits"),
        ("decimal(a)", "expected a whole number"),
        ("array<in t>", "unknown type 'in'"),
        ("struct<a: int not>", "expected 'null', found '>'"),
        ("int;", "unexpected ';'"),
        (int, "must be a text"),
    ],
    ids=repr,
)
def test_a_wrong_text_is_refused_where_it_goes_wrong(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint.replace("(", r"\(")):
        parse_type(text)


def _spelled(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"array<{_spelled(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<{_spelled(kind.key_type)}, {_spelled(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{f.name}: {_spelled(f.type)}' for f in kind)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return {"int64": "bigint", "double": "double", "string": "string"}[str(kind)]


_LEAVES = st.sampled_from([pa.int64(), pa.float64(), pa.string(), pa.decimal128(20, 4)])
_TYPES = st.recursive(
    _LEAVES,
    lambda inner: (
        inner.map(pa.list_)
        | st.builds(pa.map_, _LEAVES, inner)
        | st.lists(inner, max_size=3).map(
            lambda kinds: pa.struct([(f"f{i}", kind) for i, kind in enumerate(kinds)])
        )
    ),
    max_leaves=6,
)


@given(kind=_TYPES)
def test_nested_types_are_read_back(kind: pa.DataType) -> None:
    assert parse_type(_spelled(kind)) == kind


@pytest.mark.parametrize("text", ["a int, b: double", "struct<a: int, b: double>"])
def test_fields_are_those_of_a_schema_or_of_a_struct(text: str) -> None:
    wanted = [pa.field("a", pa.int32()), pa.field("b", pa.float64())]
    assert parse_fields(text) == parse_fields(pa.struct(wanted)) == wanted


@pytest.mark.parametrize("text", ["bigint", "array<int>", "a int b int", 5, pa.int64()])
def test_what_has_no_fields_is_refused(text: Any) -> None:
    with pytest.raises(ValueError, match=r"type|fields"):
        parse_fields(text)


def test_types_of_a_schema_that_have_an_ending_are_read():
    one = parse_type("struct<a: interval day to second, t: time(6)>")
    assert one == pa.struct([("a", pa.duration("us")), ("t", pa.time64("ns"))])
    assert widens(one, parse_type("struct<a: interval day to second, t: time(6), n: int>"))
