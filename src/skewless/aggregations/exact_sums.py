"""Sums of integers and decimals per group that are right or refused, never wrapped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skewless.arrays import Ints

_HALF = np.int64(32)
_LOW = np.int64(0xFFFFFFFF)
_LIMIT = np.int64(1 << 31)  # of the highest 32 bits, which carry the sign


def sum_integers(values: Ints, codes: Ints, n_groups: int) -> tuple[Ints, Ints]:
    """Return the sum of each group, and the groups whose sum does not fit 64 bits.

    >>> sums, too_large = sum_integers(np.array([2**62, 2**62, 5]), np.array([0, 0, 1]), 2)
    >>> sums.tolist()[1], too_large.tolist()
    (5, [0])
    """
    sums = np.zeros(n_groups, np.int64)
    if values.size == 0:
        return sums, np.zeros(0, np.int64)
    largest = max(abs(int(values.max())), abs(int(values.min())))
    if largest * values.size < 1 << 63:
        np.add.at(sums, codes, values)
        return sums, np.zeros(0, np.int64)
    high, low = _carried([values & _LOW, values >> _HALF], codes, n_groups)[::-1]
    too_large = np.flatnonzero((high < -_LIMIT) | (high >= _LIMIT))
    high[too_large] = 0
    return (high << _HALF) | low, too_large


def sum_decimals(column: Any, codes: Ints, n_groups: int, kind: pa.DataType) -> tuple[Any, Ints]:
    """Return the sum of each group as decimals of type `kind`, and the groups that do not fit.

    `column` is decimal128 of the same scale, without nulls.
    """
    words = np.frombuffer(column.buffers()[1] or b"", np.uint32).reshape(-1, 4)
    words = words[column.offset : column.offset + len(column)]
    parts = [words[:, 0], words[:, 1], words[:, 2], words[:, 3].view(np.int32)]
    limbs = _carried([part.astype(np.int64) for part in parts], codes, n_groups)
    bound = 10**kind.precision
    # Floats find the few sums near the bound, whole numbers decide.
    size = sum(limb.astype(np.float64) * 2.0 ** (32 * i) for i, limb in enumerate(limbs))
    suspects = np.flatnonzero(np.abs(size) > 0.99 * bound)
    exact = (sum(int(limb[g]) << (32 * i) for i, limb in enumerate(limbs)) for g in suspects)
    fits = np.array([-bound < total < bound for total in exact], np.bool_)
    too_large = suspects[~fits]
    out = np.empty((n_groups, 4), np.uint32)
    for i, limb in enumerate(limbs):
        limb[too_large] = 0
        out[:, i] = (limb & _LOW).astype(np.uint32)
    return pa.Array.from_buffers(kind, n_groups, [None, pa.py_buffer(out)]), too_large


def _carried(limbs: list[Ints], codes: Ints, n_groups: int) -> list[Ints]:
    """Return the sums per group of numbers of 32-bit limbs, lowest first, carries done.

    Limbs below 2³² of fewer than 2³¹ records sum to less than 2⁶³, so nothing is lost on the way;
    the highest limb is signed and may come out with more than 32 bits.
    """
    sums = []
    carry = np.zeros(n_groups, np.int64)
    for limb in limbs:
        total = carry.copy()
        np.add.at(total, codes, limb)
        carry = total >> _HALF
        sums.append(total & _LOW)
    sums[-1] = total
    return sums
