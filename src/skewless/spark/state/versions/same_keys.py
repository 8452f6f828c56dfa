"""Compares keys column by column, as Spark's `groupBy` does: equal hashes are not enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from skewless.aggregations import group
from skewless.aggregations.columns import in_order
from skewless.arrays import Ints, Keys

Flags = NDArray[np.bool_]


def same(a: Sequence[Any], b: Sequence[Any]) -> Flags:
    """Return for each row whether the key columns `a` and `b` hold the same key.

    >>> same([pa.array(["x", None, "y"])], [pa.array(["x", None, None])]).tolist()
    [True, True, False]
    """
    found = np.ones(len(a[0]), np.bool_)
    for one, other in zip(a, b, strict=True):
        found &= _equal(one, other)
    return found


def _equal(a: Any, b: Any) -> Flags:
    # Arrow's own comparison means another thing for NaN, and there is none for nested types.
    if pt.is_floating(a.type) or pt.is_nested(a.type) or pt.is_null(a.type):
        codes = group([pa.concat_arrays([a, b])]).codes
        same_codes: Flags = codes[: len(a)] == codes[len(a) :]
        return same_codes
    equal = pc.equal(a, b).fill_null(False)
    if a.null_count or b.null_count:
        equal = pc.or_(equal, pc.and_(pc.is_null(a), pc.is_null(b)))
    flags: Flags = equal.to_numpy(zero_copy_only=False)
    return flags


def begins(hashes: Keys, keys: Sequence[Any], order: Ints) -> Flags | None:
    """Return for rows in this order, which is that of their hashes, which begin another key.

    None if rows of two keys with the same hash are mixed, so that the rows of a key are not
    consecutive.
    """
    new = np.ones(order.size, np.bool_)
    found = hashes[order]
    alike = np.flatnonzero(found[1:] == found[:-1])
    if not alike.size:
        return new
    left, right = pa.array(order[alike]), pa.array(order[alike + 1])
    equal = same([key.take(left) for key in keys], [key.take(right) for key in keys])
    new[alike + 1] = ~equal
    return new if equal.all() else None


def key_order(hashes: Keys, keys: Sequence[Any], *minor: Ints) -> tuple[Ints, Flags]:
    """Return the order by hash, then by key, then by `minor`, and which rows begin another key.

    Rows that are equal in all of these stay in order. Of two keys with the same hash, the first is
    the one whose row comes first by hash and `minor`.
    """
    order = in_order(hashes, *minor)
    new = begins(hashes, keys, order)
    if new is not None:
        return order, new
    codes = group([key.take(pa.array(order)) for key in keys]).codes
    order = order[np.lexsort((codes, hashes[order]))]
    codes = group([key.take(pa.array(order)) for key in keys]).codes
    new = np.ones(order.size, np.bool_)
    new[1:] = codes[1:] != codes[:-1]
    return order, new
