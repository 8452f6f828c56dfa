"""Arrow columns made plain, read as numpy arrays, and lists built from values per group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from skewless.arrays import Floats, Ints


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that `plain` gives a column of type `kind`.

    >>> plain_type(pa.dictionary(pa.int32(), pa.string()))
    DataType(string)
    """
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    return plain_type(kind.value_type) if pt.is_dictionary(kind) else kind


def plain(column: Any) -> Any:
    """Return `column` as one array; dictionaries and extension types become their values."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column.type, pa.BaseExtensionType):
        return plain(column.storage)
    return plain(column.dictionary_decode()) if pt.is_dictionary(column.type) else column


def is_list(kind: pa.DataType) -> bool:
    """Return whether values of this type are lists of any Arrow layout; a map is not one."""
    return any(test(kind) for test in (pt.is_list, pt.is_large_list, pt.is_fixed_size_list))


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


#: Fewer rows are sorted at once: a table would take longer.
_FEW_ROWS = 1 << 10
_WORD_BITS = 64


def in_order(*columns: NDArray[Any]) -> Ints:
    """Return the row numbers sorted by the first column, then by the next one, and so on.

    Columns are integers or booleans. Equal rows stay in order, as by `np.lexsort`.

    >>> in_order(np.array([1, 0, 1, 0]), np.array([7, 8, -7, 8])).tolist()
    [1, 3, 2, 0]
    """
    n_rows = columns[0].size
    if n_rows < _FEW_ROWS:
        return np.lexsort(columns[::-1])
    # numpy sorts words several times as fast as it sorts stably: here values and their row.
    numbers = [column.astype(np.uint64) - column.min().astype(np.uint64) for column in columns]
    bits, row_bits = [int(one.max()).bit_length() for one in numbers], n_rows.bit_length()
    words = numbers[0]
    if sum(bits) + row_bits <= _WORD_BITS:
        for number, width in zip(numbers[1:], bits[1:], strict=True):
            words = words << np.uint64(width) | number
        return _rows_of(words << np.uint64(row_bits), row_bits)
    if bits[0] + row_bits > _WORD_BITS:
        # Hashes that differ do so in their upper bits, but for one sort in very many.
        rows = _rows_of(words, row_bits)
        found = words[rows]
        if (found[1:] >= found[:-1]).all():
            codes = np.cumsum(np.append(False, found[1:] != found[:-1]))
            others = [column[rows] for column in columns[1:]]
            return rows[in_order(codes, *others)] if others else rows
    table = pa.table({str(number): column for number, column in enumerate(columns)})
    keys: Any = [(name, "ascending") for name in table.column_names]
    return np.asarray(pc.sort_indices(table, sort_keys=keys)).astype(np.int64)


def _rows_of(words: NDArray[np.uint64], row_bits: int) -> Ints:
    """Return the rows in the order of their words, whose last bits give way to the row."""
    rows_only = np.uint64((1 << row_bits) - 1)
    both = words & ~rows_only | np.arange(words.size, dtype=np.uint64)
    both.sort()
    rows: Ints = (both & rows_only).view(np.int64)
    return rows


def lists(values: Any, codes: Ints, n_groups: int) -> Any:
    """Return one list per group with its values."""
    if not (codes[1:] >= codes[:-1]).all():
        order = in_order(codes)
        values, codes = values.take(pa.array(order)), codes[order]
    offsets = np.zeros(n_groups + 1, np.int64)
    np.cumsum(np.bincount(codes, minlength=n_groups), out=offsets[1:])
    if offsets[-1] > np.iinfo(np.int32).max:
        raise OverflowError(f"{offsets[-1]} values are more than one Arrow list column can hold")
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


def binary_of_lists(column: Any, words: NDArray[Any], mask: Any = None) -> Any:
    """Return one binary value per list, with the bytes of the words of its values.

    `mask` is the bitmap of the values that are not null; None: all of them.
    """
    offsets = np.zeros(len(column) + 1, np.int64)
    np.cumsum(list_lengths(column) * words.itemsize, out=offsets[1:])
    buffers = [mask, pa.py_buffer(offsets), pa.py_buffer(words)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(column), buffers)
