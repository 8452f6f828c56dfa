"""The size of rows, in bytes of their Arrow columns: the cost of moving them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from skewless.aggregations.columns import is_list, list_lengths, plain
from skewless.arrays import Ints

_OFFSET = 4


def row_bytes(columns: Sequence[Any]) -> Ints:
    """Return the bytes of each row over all columns.

    >>> row_bytes([pa.array(["abc", None]), pa.array([1, 2])]).tolist()
    [15, 12]
    """
    total = np.zeros(len(columns[0]) if columns else 0, np.int64)
    for column in columns:
        total += _bytes(plain(column))
    return total


def _bytes(column: Any) -> Ints:
    kind = column.type
    n_rows = len(column)
    if pt.is_struct(kind):
        return row_bytes(column.flatten()) if kind.num_fields else np.zeros(n_rows, np.int64)
    if pt.is_map(kind):
        column = column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
        kind = column.type
    if is_list(kind):
        lengths = list_lengths(column)
        inner = np.concatenate([[0], np.cumsum(_bytes(plain(pc.list_flatten(column))))])
        ends = np.cumsum(lengths)
        sums: Ints = inner[ends] - inner[ends - lengths] + _OFFSET
        return sums
    if _is_text(kind):
        texts: Ints = pc.binary_length(column).cast(pa.int64()).fill_null(0).to_numpy()
        return texts + _OFFSET
    if pt.is_null(kind):
        return np.zeros(n_rows, np.int64)
    return np.full(n_rows, -(-kind.bit_width // 8), np.int64)


def _is_text(kind: pa.DataType) -> bool:
    texts = (pt.is_string, pt.is_large_string, pt.is_binary, pt.is_large_binary)
    return any(is_kind(kind) for is_kind in texts)
