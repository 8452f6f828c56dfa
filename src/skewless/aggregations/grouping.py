"""Groups of equal records: exact, for every Arrow type, equal as Spark's GROUP BY means it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from skewless.aggregations.columns import (
    binary_of_lists,
    bitmap_of,
    exploded,
    is_list,
    one_zero_one_nan,
    plain,
    without_nulls,
)
from skewless.arrays import Ints


class Groups(NamedTuple):
    """Which group each record belongs to; groups are numbered in order of first appearance."""

    codes: Ints
    """The group of each record, 0 … n_groups − 1."""
    n_groups: int
    first: Ints
    """The row number of each group's first record."""


def group(columns: Sequence[pa.Array]) -> Groups:
    """Return the groups of records that are equal in all `columns`.

    As in Spark, null equals null, NaN equals NaN, −0.0 equals 0.0, and the entries of a map may
    stand in any order.

    >>> group([pa.array(["a", None, "a", "b", None])])
    Groups(codes=array([0, 1, 0, 2, 1]), n_groups=3, first=array([0, 1, 3]))
    """
    if not columns:
        raise ValueError("group needs at least one column")
    for number, column in enumerate(columns):
        if len(column) != len(columns[0]):
            raise ValueError(
                f"all columns must have the same length, but column 0 has {len(columns[0])} "
                f"records and column {number} has {len(column)}"
            )
    codes, n_groups = _codes(plain(columns[0]))
    for column in columns[1:]:
        codes, n_groups = _paired(codes, n_groups, *_codes(plain(column)))
    return Groups(codes, n_groups, _first_rows(codes, n_groups))


def distinct_pairs(column: pa.Array, codes: Ints) -> tuple[Ints, pa.Array]:
    """Return each (group, value) that occurs, once: the groups, and the values, none null.

    >>> groups, values = distinct_pairs(pa.array([5, 5, None, 5]), np.array([0, 0, 0, 1]))
    >>> groups.tolist(), values.to_pylist()
    ([0, 1], [5, 5])
    """
    values, codes = without_nulls(column, codes)
    n_codes = int(codes.max()) + 1 if codes.size else 0
    if pt.is_floating(values.type):
        values = one_zero_one_nan(values)
    pairs, n_pairs = _paired(codes, n_codes, *_codes(values))
    first = _first_rows(pairs, n_pairs)
    return codes[first], values.take(pa.array(first))


def _first_rows(codes: Ints, n_groups: int) -> Ints:
    first = np.zeros(n_groups, np.int64)
    first[codes[::-1]] = np.arange(codes.size - 1, -1, -1)  # the last assignment stays
    return first


def _paired(a: Ints, n_a: int, b: Ints, n_b: int) -> tuple[Ints, int]:
    """Return one code per record for the pairs (a, b), in order of first appearance, as b is."""
    if n_a <= 1:
        return b, n_b
    # At most 2³¹ codes a side, Arrow's limit for dictionaries: the product fits 64 bits.
    return _encoded(pa.array(a * n_b + b))


def _codes(column: Any) -> tuple[Ints, int]:
    """Return a code per record and the number of codes, in order of first appearance."""
    kind = column.type
    if pt.is_struct(kind):
        codes, n = _encoded(pc.is_valid(column))
        for field in column.flatten():  # a null struct has null fields here
            codes, n = _paired(codes, n, *_codes(plain(field)))
        return codes, n
    if pt.is_map(kind):
        entry = pa.struct([kind.key_field, kind.item_field])
        return _sequence_codes(column.cast(pa.list_(entry)), any_order=True)
    if is_list(kind):
        return _sequence_codes(column, any_order=False)
    if pt.is_union(kind):
        raise ValueError(f"records cannot be grouped by a column of type {kind}")
    if pt.is_floating(kind):
        column = one_zero_one_nan(column)
    return _encoded(column)


def _sequence_codes(column: Any, *, any_order: bool) -> tuple[Ints, int]:
    """Return a code per list: two lists are equal when the codes of their values are."""
    values, owners = exploded(column, np.arange(len(column), dtype=np.int64))
    codes, _ = _codes(values)
    if any_order:
        codes = codes[np.lexsort((codes, owners))]
    validity = pa.array(np.packbits(bitmap_of(column), bitorder="little")).buffers()[1]
    return _encoded(binary_of_lists(column, codes, validity))


def _encoded(column: Any) -> tuple[Ints, int]:
    encoded = column.dictionary_encode(null_encoding="encode")
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, len(encoded.dictionary)
