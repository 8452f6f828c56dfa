"""The keys of one block: how much each weighs, and in which order they are placed."""

from __future__ import annotations

import math

import numpy as np

from skewless._jit import kernel
from skewless.arrays import F64, I64, Floats, Keys, SmallInts
from skewless.kernels.hashing import seeded
from skewless.strategies.cascade.ahead.state import NO_KEY, AheadState, Buffers
from skewless.strategies.cascade.state import home_of

_HASH_BITS = 10
_HASH_MASK = np.uint64((1 << _HASH_BITS) - 1)
_HASH_SHIFT = np.uint64(22)  # neither the bits of the home nor those of the table
_CLASSES = 64
_MIDDLE = 16  # the class of keys that weigh half of an average record
_BYTE = 255


@kernel
def weight_of(weights: Floats | None, i: I64) -> F64:
    """Return what record i weighs; without weights, a constant to the compiler."""
    if weights is None:
        return 1.0
    return weights[i]


@kernel
def count_block(
    keys: Keys, weights: Floats | None, state: AheadState, begin: I64, end: I64
) -> tuple[I64, F64]:
    """Number the keys of records begin … end − 1; return how many there are, and all weight."""
    buffers = state.buffers
    table, known, sums = buffers.table, buffers.keys, buffers.weights
    mask = np.uint64(table.size - 1)
    n_keys = 0
    total = 0.0
    for i in range(begin, end):
        key = keys[i]
        weight = weight_of(weights, i)
        total += weight
        hashed = seeded(key, state.seed[0])
        at = hashed & mask
        number = table[at]
        while number != NO_KEY and known[number] != key:
            at = (at + np.uint64(1)) & mask
            number = table[at]
        if number == NO_KEY:
            number = np.int32(n_keys)
            n_keys += 1
            table[at] = number
            buffers.slots[number] = np.int32(at)
            known[number] = key
            buffers.hashes[number] = hashed
            buffers.homes[number] = np.int32(home_of(state, hashed))
            sums[number] = 0.0
        sums[number] += weight
        buffers.which[i - begin] = number
    for number in range(n_keys):
        table[buffers.slots[number]] = NO_KEY
    return n_keys, total


@kernel
def sort_by_rank(buffers: Buffers, n_listed: I64, scale: F64) -> None:
    """Put the listed keys in order: by weight in steps of half an octave, then by hash.

    All sources place keys of similar weight in the same order, whatever the order of the records.
    """
    for i in range(n_listed):
        number = buffers.listed[i]
        mantissa, exponent = math.frexp(buffers.weights[number] / scale)
        step = 2 * exponent + (1 if mantissa >= 0.75 else 0)
        weight_class = max(0, min(_MIDDLE + step, _CLASSES - 1))
        low = np.int64((buffers.hashes[number] >> _HASH_SHIFT) & _HASH_MASK)
        buffers.ranks[number] = np.int32((weight_class << _HASH_BITS) + low)
    _sort_by_byte(buffers, n_listed, buffers.listed, buffers.spare, 0)
    _sort_by_byte(buffers, n_listed, buffers.spare, buffers.listed, 8)


@kernel
def _sort_by_byte(
    buffers: Buffers, n_listed: I64, before: SmallInts, after: SmallInts, shift: I64
) -> None:
    """Sort by one byte of the ranks; equals keep their order."""
    tally = buffers.tally
    for i in range(tally.size):
        tally[i] = 0
    for i in range(n_listed):
        tally[((buffers.ranks[before[i]] >> shift) & _BYTE) + 1] += 1
    for i in range(1, tally.size):
        tally[i] += tally[i - 1]
    for i in range(n_listed):
        byte = (buffers.ranks[before[i]] >> shift) & _BYTE
        after[tally[byte]] = before[i]
        tally[byte] += 1
