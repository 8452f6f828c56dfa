"""Arrow columns made plain, read as numpy arrays, and lists built from values per group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from skewless.arrays import Floats, Ints


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that `plain` gives a column of type `kind`.

    >>> plain_type(pa.dictionary(pa.int32(), pa.string()))
    DataType(string)
    """
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if pt.is_string_view(kind):
        return pa.large_string()
    if pt.is_binary_view(kind):
        return pa.large_binary()
    if pt.is_decimal32(kind) or pt.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    if pt.is_list_view(kind):
        return pa.list_(kind.value_field)
    if pt.is_large_list_view(kind):
        return pa.large_list(kind.value_field)
    return kind


def plain(column: Any) -> Any:
    """Return `column` as one array of a type that every Arrow function knows.

    Dictionaries, runs, views and extension types are other encodings of the same values.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain(column.storage)
    if pt.is_dictionary(kind):
        return plain(column.dictionary_decode())
    if pt.is_run_end_encoded(kind):
        return plain(pc.run_end_decode(column))
    wanted = plain_type(kind)
    return column if wanted == kind else column.cast(wanted)


def is_list(kind: pa.DataType) -> bool:
    """Return whether values of this type are lists of any Arrow layout; a map is not one."""
    return bool(
        pt.is_list(kind)
        or pt.is_large_list(kind)
        or pt.is_fixed_size_list(kind)
        or pt.is_list_view(kind)
        or pt.is_large_list_view(kind)
    )


def bitmap_of(column: Any) -> Any:
    """Return one boolean per record: whether it is not null."""
    return pc.is_valid(column).to_numpy(zero_copy_only=False)


def without_nulls(column: Any, codes: Ints) -> tuple[Any, Ints]:
    """Return the values that are not null, and the groups that they belong to."""
    column = plain(column)
    if column.null_count == 0:
        return column, codes
    return column.drop_null(), codes[bitmap_of(column)]


def as_floats(column: Any) -> Floats:
    """Return the numbers of a column without nulls as float64."""
    floats: Floats = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return floats


def one_zero_one_nan(column: Any) -> Any:
    """Return a float column in which every NaN has the same bits and −0.0 is 0.0."""
    values = column.fill_null(0).to_numpy(zero_copy_only=False) + column.type.to_pandas_dtype()(0)
    values[np.isnan(values)] = np.nan
    mask = None if column.null_count == 0 else ~bitmap_of(column)
    return pa.array(values, column.type, mask=mask)


def with_nulls(values: Any, is_null: Any, kind: pa.DataType) -> Any:
    """Return `values` as an Arrow array of type `kind` that is null where `is_null`."""
    return pa.array(values, kind, mask=is_null if is_null.any() else None)


def list_of(element: pa.DataType) -> pa.DataType:
    """Return the type of the lists that `lists` makes of elements of this type."""
    return pa.list_(plain_type(element))


def by_group(codes: Ints) -> Ints:
    """Return the row numbers sorted by group, rows of one group in their order.

    >>> by_group(np.array([1, 0, 70000, 1, 0])).tolist()
    [1, 4, 0, 3, 2]
    """
    # numpy sorts 16-bit numbers by radix: several passes beat one sort of 64-bit numbers.
    order = np.argsort(codes.astype(np.uint16), kind="stable")
    rest = codes >> 16
    while rest.any():
        order = order[np.argsort(rest.astype(np.uint16)[order], kind="stable")]
        rest = rest >> 16
    return order


def lists(values: Any, codes: Ints, n_groups: int, order: Ints | None = None) -> Any:
    """Return one list per group with its values; `order` sorts the records by group."""
    if order is None:
        order = by_group(codes)
    offsets = np.zeros(n_groups + 1, np.int64)
    np.cumsum(np.bincount(codes[order], minlength=n_groups), out=offsets[1:])
    if offsets[-1] > np.iinfo(np.int32).max:
        raise OverflowError(f"{offsets[-1]} values are more than one Arrow list column can hold")
    values = values.take(pa.array(order))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def exploded(column: Any, codes: Ints) -> tuple[Any, Ints]:
    """Return the values of all lists of a column, and the groups that they belong to."""
    lengths = list_lengths(column)
    return plain(pc.list_flatten(column)), np.repeat(codes, lengths)


def list_lengths(column: Any) -> Ints:
    """Return the number of values of each list; a null has none."""
    lengths = pc.list_value_length(column).cast(pa.int64()).fill_null(0)
    n_values: Ints = lengths.to_numpy(zero_copy_only=False)
    return n_values
