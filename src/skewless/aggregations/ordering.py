"""Numbers that order values as Spark does, whatever the type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from skewless.aggregations.columns import (
    binary_of_lists,
    bitmap_of,
    exploded,
    is_list,
    one_zero_one_nan,
    plain,
    plain_type,
)
from skewless.arrays import Ints

_SIGN = np.uint64(1 << 63)
_MAGNITUDE = np.int64((1 << 63) - 1)
_WORD_DIGITS = 18  # decimals of this many digits fit 64 bits


def is_orderable(kind: pa.DataType) -> bool:
    """Return whether Spark can order values of this type; not so maps and calendar intervals."""
    kind = plain_type(kind)
    if pt.is_struct(kind):
        return all(is_orderable(kind.field(i).type) for i in range(kind.num_fields))
    if is_list(kind):
        return is_orderable(kind.value_type)
    return not (pt.is_map(kind) or pt.is_union(kind) or pt.is_interval(kind))


def order_keys_and_nulls(column: Any) -> tuple[Ints, NDArray[np.bool_]]:
    """Return `order_keys` of a column, 0 for a null, and which values are not null.

    >>> keys, valid = order_keys_and_nulls(pa.array([7, None, -7]))
    >>> keys.tolist(), valid.tolist()
    ([7, 0, -7], [True, False, True])
    """
    column = plain(column)
    valid = bitmap_of(column)
    keys = np.zeros(len(column), np.int64)
    keys[valid] = order_keys(column.drop_null())
    return keys, valid


def order_keys(column: Any) -> Ints:
    """Return an int64 per record such that keys compare as the values do; no value may be null.

    Spark's order: NaN above every number, −0.0 equal to 0.0, text and binary by bytes, false before
    true, structs by field, lists by element and then by length, a null inside them before all else.

    >>> order_keys(pa.array(["b", "a", "c", "a"])).tolist()
    [2, 1, 3, 1]
    """
    column = plain(column)
    kind = column.type
    keys: Ints
    if pt.is_uint64(kind):
        keys = (_numpy(column) ^ _SIGN).view(np.int64)
    elif pt.is_integer(kind) or pt.is_boolean(kind):
        keys = _numpy(column.cast(pa.int64()))
    elif pt.is_floating(kind):
        bits = _numpy(one_zero_one_nan(column.cast(pa.float64()))).view(np.int64)
        keys = bits ^ ((bits >> np.int64(63)) & _MAGNITUDE)
    elif pt.is_temporal(kind) and not pt.is_interval(kind):
        width = pa.int32() if kind.bit_width == 32 else pa.int64()
        keys = _numpy(column.view(width)).astype(np.int64, copy=False)
    elif pt.is_decimal128(kind) and kind.precision <= _WORD_DIGITS:
        low = np.frombuffer(column.buffers()[1] or b"", np.int64)[::2]
        keys = low[column.offset : column.offset + len(column)]
    else:
        keys = _ranks(column)
    return keys


def _numpy(column: Any) -> Any:
    return column.to_numpy(zero_copy_only=False)


def _ranks(column: Any) -> Ints:
    """Return 0 for a null and otherwise 1, 2, … by order; equal values have equal ranks."""
    kind = column.type
    if pt.is_struct(kind):
        ranks = np.zeros(len(column), np.int64)
        for field in column.flatten():
            inner = _ranks(plain(field))
            ranks = _dense(ranks * (inner.max(initial=0) + 1) + inner)
    elif is_list(kind):
        words = _ranks(exploded(column, np.arange(len(column)))[0]).astype(">u8")
        # Big-endian words: the order by bytes is the order of the lists.
        ranks = _encoded_ranks(binary_of_lists(column, words))
    elif pt.is_null(kind):
        return np.zeros(len(column), np.int64)
    elif pt.is_primitive(kind) and not pt.is_decimal(kind) and not pt.is_interval(kind):
        ranks = np.zeros(len(column), np.int64)
        ranks[bitmap_of(column)] = _dense(order_keys(column.drop_null()))
    else:
        ranks = _encoded_ranks(column)
    return np.where(bitmap_of(column), ranks + 1, 0)


def _dense(keys: Ints) -> Ints:
    """Return 0, 1, … in the order of the keys."""
    return np.unique(keys, return_inverse=True)[1].astype(np.int64)


def _encoded_ranks(column: Any) -> Ints:
    """Return 0, 1, … in the order of the values; a null gets any rank."""
    encoded = column.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    rank_of_code = np.zeros(max(1, order.size), np.int64)
    rank_of_code[order] = np.arange(order.size)
    ranks: Ints = rank_of_code[_numpy(encoded.indices.fill_null(0))]
    return ranks
