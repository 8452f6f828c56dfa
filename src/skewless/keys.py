"""Key hashes: what Spark's `xxhash64(columns…)` gives, computed here from Arrow's buffers."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from skewless.arrays import Bytes, Keys
from skewless.kernels.xxhash64 import SPARK_SEED, fold_bytes, fold_ints, fold_longs

_ALLOWED = (
    "strings, binary, booleans, signed integers, float32, float64, decimal128, dates, timestamps, "
    "durations, and structs, lists and dictionaries of these"
)
_Fold = Callable[[pa.Array, Keys], None]


def hash_keys(*columns: Any) -> Keys:
    """Return one hash per record over `columns`, the same bits as Spark's `xxhash64(columns…)`.

    Columns are folded from left to right; a null leaves the hash as it is, so a record with
    nothing but nulls has hash 42. Spark shows the bits as a signed number.

    Parameters
    ----------
    columns
        Arrow arrays or chunked arrays, numpy arrays, pandas Series, or Python lists, all of one
        length. Types are hashed as Spark hashes the column that they would become: integers in a
        Python list are BIGINT, Decimals are DECIMAL(38, 18). NaN and NaT of pandas are nulls.
        Timestamps are cut to microseconds; those without a time zone are taken as UTC.

    Examples
    --------
    >>> hash_keys(["a", "b", None]).view("int64").tolist()
    [-8582455328737087284, -6391946315847899181, 42]
    >>> hash_keys([1, 2], ["x", "y"]).view("int64").tolist()
    [6158280145716684778, -6469724297723618987]
    """
    if not columns:
        raise ValueError("hash_keys needs at least one column")
    arrays = [_as_arrow(column) for column in columns]
    n_records = len(arrays[0])
    for number, array in enumerate(arrays):
        if len(array) != n_records:
            raise ValueError(
                f"all key columns must have the same length, but column 0 has {n_records} records "
                f"and column {number} has {len(array)}"
            )
    hashes = np.full(n_records, SPARK_SEED, np.uint64)
    for array in arrays:
        first = 0
        for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else [array]:
            _fold(chunk, hashes[first : first + len(chunk)])
            first += len(chunk)
    return hashes


def _as_arrow(column: Any) -> Any:
    """Return `column` as an Arrow array of the type that Spark would give it."""
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column
    if isinstance(column, str | bytes):
        raise TypeError(f"a key column must be a sequence of values, not the value {column!r}")
    if isinstance(column, np.ndarray) and column.ndim != 1:
        raise ValueError(f"a key column must have one dimension, not {column.ndim}")
    try:
        if isinstance(column, list | tuple) and any(isinstance(v, Decimal) for v in column):
            return pa.array(column, pa.decimal128(38, 18))  # as Spark takes them
        return pa.array(column)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise TypeError(f"a key column mixes types: {error}. Allowed: {_ALLOWED}") from error
    except OverflowError as error:
        raise TypeError(f"an integer of a key column does not fit 64 bits: {error}") from error


def _fold(array: pa.Array, hashes: Keys) -> None:
    """Fold one column, or one chunk of it, into `hashes`."""
    kind = array.type
    if len(array) == 0 and not pt.is_nested(kind):
        array = pa.nulls(0, kind)
    for matches, fold in _FOLDS:
        if matches(kind):
            fold(array, hashes)
            return
    raise TypeError(f"a key column cannot be of type {kind}; allowed: {_ALLOWED}")


def _validity(array: pa.Array) -> Bytes:
    bitmap = array.buffers()[0]
    if bitmap is None or array.null_count == 0:
        return np.empty(0, np.uint8)
    return np.frombuffer(bitmap, np.uint8)


def _buffer(array: pa.Array, number: int, dtype: Any) -> Any:
    """Return one buffer as an array, without copying; an empty array may have no buffer."""
    buffer = array.buffers()[number]
    if buffer is None:
        return np.zeros(1, dtype)
    item = np.dtype(dtype).itemsize
    return np.frombuffer(buffer, dtype, count=buffer.size // item)


def _fold_ints(array: pa.Array, hashes: Keys) -> None:
    fold_ints(_buffer(array, 1, np.int32), _validity(array), array.offset, hashes)


def _fold_longs(array: pa.Array, hashes: Keys) -> None:
    fold_longs(_buffer(array, 1, np.int64), _validity(array), array.offset, hashes)


def _fold_floats(array: pa.Array, hashes: Keys) -> None:
    """Fold the bits of floats, with one zero and one NaN."""
    is_long = pt.is_float64(array.type)
    values = _buffer(array, 1, np.float64 if is_long else np.float32)
    bits = values.view(np.int64 if is_long else np.int32).copy()
    bits[values == 0] = 0
    bits[np.isnan(values)] = 0x7FF8000000000000 if is_long else 0x7FC00000
    fold = fold_longs if is_long else fold_ints
    fold(bits, _validity(array), array.offset, hashes)


def _fold_decimals(array: pa.Array, hashes: Keys) -> None:
    words = _buffer(array, 1, np.int64)
    if array.type.precision <= 18:
        low = np.ascontiguousarray(words[::2])
        fold_longs(low, _validity(array), array.offset, hashes)
        return
    halves = words[2 * array.offset : 2 * (array.offset + len(array))].reshape(-1, 2)
    pairs = zip(halves[:, 1].tolist(), halves[:, 0].view(np.uint64).tolist(), strict=True)
    numbers = (high << 64 | low for high, low in pairs)
    # As Java's BigInteger writes them: with as few bytes as possible, and one bit for the sign.
    data = [n.to_bytes((n ^ n >> 128).bit_length() // 8 + 1, "big", signed=True) for n in numbers]
    _fold_bytes(pa.array(data, pa.binary(), mask=array.is_null().to_numpy(False)), hashes)


def _fold_bytes(array: pa.Array, hashes: Keys) -> None:
    large = pt.is_large_string(array.type) or pt.is_large_binary(array.type)
    offsets = _buffer(array, 1, np.int64 if large else np.int32)
    fold_bytes(offsets, _buffer(array, 2, np.uint8), _validity(array), array.offset, hashes)


def _fold_dictionary(array: pa.Array, hashes: Keys) -> None:
    if hashes.size and bool((hashes == hashes[0]).all()):
        # One seed for all, as for a first column: hash each entry once, and look the rest up.
        entries = np.full(len(array.dictionary) + 1, hashes[0], np.uint64)
        _fold(array.dictionary, entries[:-1])
        hashes[:] = entries[array.indices.fill_null(-1).to_numpy()]
    else:
        _fold(array.dictionary_decode(), hashes)


def _fold_struct(array: pa.Array, hashes: Keys) -> None:
    for field in array.flatten():  # a field of a null struct is null, and leaves the hash alone
        _fold(field, hashes)


def _fold_list(array: pa.Array, hashes: Keys) -> None:
    lengths = array.value_lengths().fill_null(0).to_numpy().astype(np.int64)
    elements = array.flatten()  # leaves out the elements of null lists
    starts = np.cumsum(lengths) - lengths
    _fold(elements[:0], hashes[:0])  # refuses an element type even where there are no elements
    # Elements chain as columns do: all first elements, then all second ones, …
    for position in range(int(lengths.max(initial=0))):
        records = np.flatnonzero(lengths > position)
        seeds = hashes[records]
        _fold(elements.take(pa.array(starts[records] + position)), seeds)
        hashes[records] = seeds


def _cast(kind: Callable[[pa.DataType], pa.DataType], fold: _Fold, **options: Any) -> _Fold:
    """Return how columns are hashed that Spark would store as another type."""
    return lambda array, hashes: fold(array.cast(kind(array.type), **options), hashes)


def _any(*tests: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda kind: any(test(kind) for test in tests)


#: Which types are hashed how; the first that matches counts.
_FOLDS: tuple[tuple[Callable[[Any], bool], _Fold], ...] = (
    (_any(pt.is_string, pt.is_large_string, pt.is_binary, pt.is_large_binary), _fold_bytes),
    (pt.is_int64, _fold_longs),
    (_any(pt.is_int32, pt.is_date32), _fold_ints),
    (_any(pt.is_int8, pt.is_int16, pt.is_boolean), _cast(lambda _: pa.int32(), _fold_ints)),
    (pt.is_date64, _cast(lambda _: pa.date32(), _fold_ints)),
    (pt.is_timestamp, _cast(lambda kind: pa.timestamp("us", kind.tz), _fold_longs, safe=False)),
    (pt.is_duration, _cast(lambda _: pa.duration("us"), _fold_longs, safe=False)),
    (_any(pt.is_float64, pt.is_float32), _fold_floats),
    (pt.is_decimal128, _fold_decimals),
    (pt.is_dictionary, _fold_dictionary),
    (pt.is_struct, _fold_struct),
    (_any(pt.is_list, pt.is_large_list, pt.is_fixed_size_list), _fold_list),
    (
        _any(pt.is_string_view, pt.is_binary_view, pt.is_fixed_size_binary),
        _cast(lambda _: pa.large_binary(), _fold_bytes),
    ),
    (pt.is_null, lambda array, hashes: None),
)
