"""In which order the keys of a block are placed: the lightest first, the heaviest last."""

from __future__ import annotations

import math

import numpy as np

from skewless.arrays import F64, I64, U64, SmallInts
from skewless.plumbing.compiling import kernel
from skewless.strategies.cascade.ahead.state import BYTE_VALUES, Buffers

_CLASSES = 64
_MIDDLE = 16  # the class of keys that weigh half of an average record
_MOST_WEIGHT = 1e9  # average records: as much as the last class needs
_MIDDLE_MANTISSA = 0.75  # of all mantissas, 0.5 … 1: it halves an octave
_HASH_BITS = 10
_HASH_MASK = np.uint64((1 << _HASH_BITS) - 1)
_HASH_SHIFT = np.uint64(22)  # not the bits of the home
_BYTE = BYTE_VALUES - 1


@kernel
def rank_of(estimate: F64, hashed: U64, scale: F64) -> I64:
    """Return the rank of a key: a class of half an octave, then some bits of its hash.

    Sources that see different records of a key mostly find the same class. So they place the keys
    in the same order, and leave the same ones out where there is no room for all.
    """
    mantissa, exponent = math.frexp(min(estimate / scale, _MOST_WEIGHT))
    step = 2 * exponent + (1 if mantissa >= _MIDDLE_MANTISSA else 0)
    weight_class = max(0, min(_MIDDLE + step, _CLASSES - 1))
    return (weight_class << _HASH_BITS) + np.int64((hashed >> _HASH_SHIFT) & _HASH_MASK)


@kernel
def sort_listed(buffers: Buffers, n_listed: I64, scale: F64) -> None:
    """Put the listed keys in the order of their ranks; equals keep their order."""
    for i in range(n_listed):
        number = buffers.listed[i]
        rank = rank_of(buffers.estimates[number], buffers.hashes[number], scale)
        buffers.ranks[number] = np.int32(rank)
    _sort_by_byte(buffers, n_listed, buffers.listed, buffers.slots, 0)
    _sort_by_byte(buffers, n_listed, buffers.slots, buffers.listed, 8)


@kernel
def _sort_by_byte(
    buffers: Buffers, n_listed: I64, before: SmallInts, after: SmallInts, shift: I64
) -> None:
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
