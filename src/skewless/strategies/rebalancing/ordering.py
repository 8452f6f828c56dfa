"""The order of many numbers, largest first: a radix sort, several times faster than a stable sort.

A rebalance sorts every key that was seen, and little else in it takes time.
"""

from __future__ import annotations

import numpy as np

from skewless._jit import JIT_OFF, kernel
from skewless.arrays import U64, Floats, Ints, Words

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
def _sort_by_digit(bits: Words, shift: U64, before: Ints, old: Ints, new: Ints) -> None:
    for i in range(old.size):
        place = np.int64((bits[old[i]] >> shift) & _MASK)
        new[before[place]] = old[i]
        before[place] += 1


def descending_order(values: Floats) -> Ints:
    """Return the places of `values`, none below 0, from the largest to the smallest.

    Of equal values, the first comes first.

    >>> descending_order(np.array([1.0, 3.0, 0.0, 3.0])).tolist()
    [1, 3, 0, 2]
    """
    if JIT_OFF or values.size < _FEW:
        order: Ints = np.argsort(-values, kind="stable")
        return order
    # Floats of one sign are ordered like their bits. Adding 0 makes −0 a 0.
    bits = ~(values + 0.0).view(np.uint64)
    counts = np.zeros(_N_DIGITS * _RADIX, np.int64)
    _count_digits(bits, counts)
    old = np.arange(values.size)
    new = np.empty_like(old)
    for digit, count in enumerate(counts.reshape(_N_DIGITS, _RADIX)):
        if count.max() < values.size:  # the digit is not the same everywhere
            before = np.cumsum(count) - count
            _sort_by_digit(bits, np.uint64(digit * _DIGIT), before, old, new)
            old, new = new, old
    return old
