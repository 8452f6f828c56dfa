"""Groups of equal records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregations.oracle import codes_of, same_key
from aggregations.values import GROUPED, MAPS
from skewless.aggregations import distinct_pairs, group
from skewless.aggregations.columns import in_order


def expected_groups(rows: list[Any]) -> tuple[list[int], list[int]]:
    """Return codes in order of first appearance, and the first rows."""
    codes: dict[Any, int] = {}
    first = []
    for number, row in enumerate(rows):
        if row not in codes:
            codes[row] = len(codes)
            first.append(number)
    return [codes[row] for row in rows], first


def oracle_rows(column: pa.Array) -> list[Any]:
    values = column.to_pylist(maps_as_pydicts="strict")
    return [same_key(_sorted_maps(value, column.type)) for value in values]


def _sorted_maps(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(kind):
        return dict(sorted(value.items()))
    if pa.types.is_struct(kind):
        return {field.name: _sorted_maps(value[field.name], field.type) for field in kind}
    return value


@pytest.mark.parametrize("name", GROUPED)
@given(data=st.data())
@settings(max_examples=30)
def test_groups_are_those_of_a_dict(name: str, data: st.DataObject) -> None:
    kind = GROUPED[name]
    values = data.draw(st.lists(st.none() | kind.values, max_size=25))
    values += data.draw(st.lists(st.sampled_from(values), max_size=10)) if values else []
    skip = data.draw(st.integers(0, len(values)))
    column = pa.array(values, kind.type).slice(skip)
    codes, first = expected_groups(oracle_rows(column))
    groups = group([column])
    assert groups.codes.tolist() == codes
    assert groups.codes.dtype == np.int64
    assert groups.first.tolist() == first
    assert groups.n_groups == len(first)


@pytest.mark.parametrize("names", [("double", "string"), ("void", "int", "map", "boolean")])
@given(data=st.data())
def test_several_columns_group_as_tuples(names: tuple[str, ...], data: st.DataObject) -> None:
    n = data.draw(st.integers(0, 20))
    columns = []
    for name in names:
        few = data.draw(st.lists(st.none() | GROUPED[name].values, min_size=1, max_size=3))
        values = data.draw(st.lists(st.sampled_from(few), min_size=n, max_size=n))
        columns.append(pa.array(values, GROUPED[name].type))
    rows = list(zip(*(oracle_rows(column) for column in columns), strict=True))
    codes, first = expected_groups(rows)
    groups = group(columns)
    assert groups.codes.tolist() == codes
    assert groups.first.tolist() == first


def test_a_long_stream_of_pairs_groups_as_a_dict() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 300, 20_000), rng.integers(0, 300, 20_000)
    codes, first = expected_groups(list(zip(a.tolist(), b.tolist(), strict=True)))
    groups = group([pa.array(a), pa.array(b).cast(pa.string())])
    assert groups.codes.tolist() == codes
    assert groups.first.tolist() == first


def test_every_nan_is_one_key_whatever_its_bits() -> None:
    bits = np.array([0x7FF8 << 48, 0xFFF8 << 48, (0x7FF8 << 48) + 7, 0], np.uint64)
    assert group([pa.array(bits.view(np.float64))]).codes.tolist() == [0, 0, 0, 1]


def test_entries_of_a_map_may_stand_in_any_order() -> None:
    maps = pa.array([[("a", 1), ("b", 2)], [("b", 2), ("a", 1)], [("a", 2), ("b", 1)]], MAPS.type)
    assert group([maps]).codes.tolist() == [0, 0, 1]


def test_null_empty_and_list_of_null_are_three_keys() -> None:
    column = pa.array([None, [], [None], None, []], pa.list_(pa.int64()))
    assert group([column]).codes.tolist() == [0, 1, 2, 0, 1]


def test_values_under_a_null_list_are_not_seen() -> None:
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 2, 4], pa.int32()), pa.array([1, 2, 3, 4]), mask=pa.array([True, False])
    )
    assert group([pa.concat_arrays([hidden, pa.array([None], hidden.type)])]).n_groups == 2


def test_chunks_group_as_one_column() -> None:
    assert group([pa.chunked_array([["a"], ["b", "a"]])]).codes.tolist() == [0, 1, 0]


def test_columns_must_be_there_and_equally_long() -> None:
    with pytest.raises(ValueError, match="at least one column"):
        group([])
    with pytest.raises(ValueError, match="column 0 has 1 records and column 1 has 2"):
        group([pa.array([1]), pa.array([1, 2])])


def test_a_union_is_refused() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(ValueError, match="cannot be grouped by a column of type sparse_union"):
        group([union])


@pytest.mark.parametrize("name", GROUPED)
@given(data=st.data())
@settings(max_examples=30)
def test_distinct_pairs_are_the_set_of_pairs(name: str, data: st.DataObject) -> None:
    kind = GROUPED[name]
    values = data.draw(st.lists(st.none() | kind.values, max_size=20))
    codes = data.draw(st.lists(st.integers(0, 5), min_size=len(values), max_size=len(values)))
    column = pa.array(values, kind.type)
    pairs = [
        (code, row)
        for code, row, value in zip(codes, oracle_rows(column), values, strict=True)
        if value is not None
    ]
    pair_codes, pair_values = distinct_pairs(column, codes_of(*codes))
    got = list(zip(pair_codes.tolist(), oracle_rows(pair_values), strict=True))
    assert got == list(dict.fromkeys(pairs))


@pytest.mark.parametrize("n_rows", [0, 1, 1_023, 1_024, 5_000])
@pytest.mark.parametrize("n_bits", [(1,), (64,), (0, 3), (64, 64), (12, 0, 64), (64, 63, 2, 64)])
def test_rows_are_in_the_order_of_a_stable_sort(n_rows: int, n_bits: tuple[int, ...]) -> None:
    rng = np.random.default_rng(n_rows)
    columns: list[Any] = []
    for number, bits in enumerate(n_bits):
        values = rng.integers(0, 1 << bits, n_rows, np.uint64, endpoint=False) if bits else None
        column = np.full(n_rows, 7, np.uint64) if values is None else values
        # A few values again and again, so that later columns decide.
        column = column[rng.integers(0, max(1, n_rows // 3), n_rows)] if n_rows else column
        kinds = (np.uint64, np.int64, np.bool_) if bits == 1 else (np.uint64, np.int64)
        columns.append(column.astype(kinds[number % len(kinds)]))
    assert in_order(*columns).tolist() == np.lexsort(columns[::-1]).tolist()


@pytest.mark.parametrize("others", [(), (np.arange(4_000) % 7,)])
def test_words_whose_upper_bits_are_the_same_are_in_order(others: tuple[Any, ...]) -> None:
    """The row takes the place of the lower bits of a wide word."""
    words = np.tile(np.array([3, 1, 2, 1 << 63], np.uint64), 1_000)
    assert in_order(words, *others).tolist() == np.lexsort((*others[::-1], words)).tolist()


def test_the_least_and_the_largest_number_are_in_order() -> None:
    ends = np.array([np.iinfo(np.int64).max, np.iinfo(np.int64).min, 0, -1] * 500)
    flags = np.arange(ends.size) % 2 == 0
    assert in_order(flags, ends).tolist() == np.lexsort((ends, flags)).tolist()
