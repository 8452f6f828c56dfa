"""Arrow columns made plain, read as numpy arrays, and lists built from values per group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from skewless.arrays import Floats, Ints, Words


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
    tests = (pt.is_list, pt.is_large_list, pt.is_fixed_size_list)
    return any(test(kind) for test in (*tests, pt.is_list_view, pt.is_large_list_view))


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


#: Fewer rows are sorted at once: packing them would take longer.
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
    # numpy sorts words several times as fast as it sorts stably. So each row becomes one word: its
    # values, or their ranks where the values have too many bits, and its number.
    words, width = np.zeros(n_rows, np.uint64), 0
    for column in columns:
        part, n_bits = _narrow(column)
        if width + n_bits > _WORD_BITS:
            words, width = _dense(words)
        if width + n_bits > _WORD_BITS:
            part, n_bits = _dense(part)
        # A shift by all bits is not defined.
        words = (words << np.uint64(n_bits)) | part if width else part
        width += n_bits
    row_bits = (n_rows - 1).bit_length()
    if width + row_bits > _WORD_BITS:
        words, _ = _dense(words)
    words = (words << np.uint64(row_bits)) | np.arange(n_rows, dtype=np.uint64)
    words.sort()
    rows: Ints = (words & np.uint64((1 << row_bits) - 1)).view(np.int64)
    return rows


def _narrow(column: NDArray[Any]) -> tuple[Words, int]:
    """Return numbers in the same order from 0 on, and how many bits they have."""
    if column.dtype != np.uint64:
        column = column.astype(np.int64, copy=False)
    low = int(column.min())
    part = column.view(np.uint64) - np.uint64(low % (1 << _WORD_BITS))  # wraps around
    return part, (int(column.max()) - low).bit_length()


def _dense(words: Words) -> tuple[Words, int]:
    """Return the rank of each word among the different ones, and how many bits ranks have."""
    order = np.argsort(words)
    found = words[order]
    ranks = np.zeros(words.size, np.uint64)
    np.cumsum(found[1:] != found[:-1], out=ranks[1:], dtype=np.uint64)
    n_bits = int(ranks[-1]).bit_length()
    found[order] = ranks
    return found, n_bits


def lists(values: Any, codes: Ints, n_groups: int, order: Ints | None = None) -> Any:
    """Return one list per group with its values; `order` sorts the records by group."""
    if order is None and not (codes[1:] >= codes[:-1]).all():
        order = in_order(codes)
    if order is not None:
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
