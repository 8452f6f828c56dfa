"""The order of many numbers, largest first: a radix sort, several times faster than a stable sort.

A rebalance sorts every key that was seen, and little else in it takes time.
"""

from __future__ import annotations

import numpy as np

from skewless.arrays import F64, U64, Floats, Ints, SmallInts, Words
from skewless.plumbing.compiling import JIT_OFF, kernel

_DIGIT = 11  # bits; six digits make 66 of 64
_N_DIGITS = 6
_RADIX = 1 << _DIGIT
_MASK = np.uint64(_RADIX - 1)
_FEW = 2_000  # below this, clearing the counters takes longer than sorting


@kernel
def _count_digits(bits: Words, counts: Ints) -> None:
    for i in range(bits.size):
        rest = bits[i]
        for digit in range(_N_DIGITS):
            counts[digit * _RADIX + np.int64(rest & _MASK)] += 1
            rest = rest >> np.uint64(_DIGIT)


@kernel
def _sort_by_digit(
    bits: Words, order: SmallInts, shift: U64, before: Ints, new_bits: Words, new_order: SmallInts
) -> None:
    """Sort by one digit; bits move with their places, so that all reads are in sequence."""
    for i in range(order.size):
        digit = np.int64((bits[i] >> shift) & _MASK)
        place = before[digit]
        before[digit] = place + 1
        new_bits[place] = bits[i]
        new_order[place] = order[i]


def descending_order(values: Floats) -> SmallInts:
    """Return the places of `values`, none below 0, from the largest to the smallest.

    Of equal values, the first comes first.

    >>> descending_order(np.array([1.0, 3.0, 0.0, 3.0])).tolist()
    [1, 3, 0, 2]
    """
    if JIT_OFF or values.size < _FEW:
        return np.argsort(-values, kind="stable").astype(np.int32)
    # Floats of one sign are ordered like their bits. Adding 0 makes −0 a 0.
    bits = ~(values + 0.0).view(np.uint64)
    counts = np.zeros(_N_DIGITS * _RADIX, np.int64)
    _count_digits(bits, counts)
    order = np.arange(values.size, dtype=np.int32)
    new_bits, new_order = np.empty_like(bits), np.empty_like(order)
    for digit, count in enumerate(counts.reshape(_N_DIGITS, _RADIX)):
        if count.max() < values.size:  # the digit is not the same everywhere
            before = np.cumsum(count) - count
            _sort_by_digit(bits, order, np.uint64(digit * _DIGIT), before, new_bits, new_order)
            bits, new_bits = new_bits, bits
            order, new_order = new_order, order
    return order


@kernel
def _migration_priority(costs: Floats, sizes: Floats, beta: F64, out: Floats) -> None:
    for i in range(costs.size):
        if costs[i] <= 0.0:
            out[i] = 0.0
        elif sizes[i] <= 0.0:
            out[i] = np.inf  # it costs nothing to move
        elif beta == 1.5:  # the default; several times as fast as a power
            out[i] = costs[i] * np.sqrt(costs[i]) / sizes[i]
        else:
            out[i] = costs[i] ** beta / sizes[i]


def migration_priority(costs: Floats, sizes: Floats, beta: float | None) -> Floats:
    """Return γ = c^β / S of each key; with no β, the cost alone (ψ of MinTable)."""
    if beta is None:
        return costs
    out = np.empty(costs.size)
    _migration_priority(costs, sizes, float(beta), out)
    return out
