"""XXH64 as Spark's `xxhash64` computes it: the hash of one column is the seed of the next.

The kernels read Arrow's buffers in place: values, offsets and validity bitmaps. `first` is the
offset of the array in them. `hashes` holds the seed of each record and receives its hash; the
record of a null keeps its seed.
"""

import numpy as np

from skewless.arrays import I64, U64, Bytes, Ints, SmallInts, Words
from skewless.plumbing.compiling import kernel

#: The seed of the first column in Spark.
SPARK_SEED = np.uint64(42)

_PRIME_1 = np.uint64(0x9E3779B185EBCA87)
_PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3 = np.uint64(0x165667B19E3779F9)
_PRIME_4 = np.uint64(0x85EBCA77C2B2AE63)
_PRIME_5 = np.uint64(0x27D4EB2F165667C5)
_LOW_HALF = np.uint64(0xFFFFFFFF)
# A shift or a position that is no uint64 would turn a hash into a float.
_ZERO, _ONE, _2, _3, _4, _7, _8 = (np.uint64(n) for n in (0, 1, 2, 3, 4, 7, 8))
_11, _12, _16, _18, _23, _24, _27 = (np.uint64(n) for n in (11, 12, 16, 18, 23, 24, 27))
_29, _31, _32, _33, _64 = (np.uint64(n) for n in (29, 31, 32, 33, 64))


@kernel
def _rotate(x: U64, bits: U64) -> U64:
    return (x << bits) | (x >> (_64 - bits))


@kernel
def _finish(x: U64) -> U64:
    x = (x ^ (x >> _33)) * _PRIME_2
    x = (x ^ (x >> _29)) * _PRIME_3
    return x ^ (x >> _32)


@kernel
def _round(lane: U64, word: U64) -> U64:
    return _rotate(lane + word * _PRIME_2, _31) * _PRIME_1


@kernel
def _take_word(hashed: U64, word: U64) -> U64:
    return _rotate(hashed ^ _round(_ZERO, word), _27) * _PRIME_1 + _PRIME_4


@kernel
def _take_half(hashed: U64, half: U64) -> U64:
    return _rotate(hashed ^ (half * _PRIME_1), _23) * _PRIME_2 + _PRIME_3


@kernel
def hash_long(value: I64, seed: U64) -> U64:
    """Return the hash of a BIGINT, or of whatever Spark stores as one."""
    return _finish(_take_word(seed + _PRIME_5 + _8, np.uint64(value)))


@kernel
def hash_int(value: I64, seed: U64) -> U64:
    """Return the hash of an INT, or of whatever Spark hashes as one."""
    return _finish(_take_half(seed + _PRIME_5 + _4, np.uint64(value) & _LOW_HALF))


# Positions in bytes are unsigned: numba then needs no test for negative ones, and the compiler
# turns eight byte loads into one.
@kernel
def _half_at(data: Bytes, at: U64) -> U64:
    return (
        np.uint64(data[at])
        | np.uint64(data[at + _ONE]) << _8
        | np.uint64(data[at + _2]) << _16
        | np.uint64(data[at + _3]) << _24
    )


@kernel
def _word_at(data: Bytes, at: U64) -> U64:
    return _half_at(data, at) | _half_at(data, at + _4) << _32


@kernel
def hash_bytes(data: Bytes, start: I64, stop: I64, seed: U64) -> U64:
    """Return the hash of `data[start:stop]`."""
    at = np.uint64(start)
    end = np.uint64(stop)
    length = end - at
    if length >= _32:
        lane_1 = seed + _PRIME_1 + _PRIME_2
        lane_2 = seed + _PRIME_2
        lane_3 = seed
        lane_4 = seed - _PRIME_1
        while at + _32 <= end:
            lane_1 = _round(lane_1, _word_at(data, at))
            lane_2 = _round(lane_2, _word_at(data, at + _8))
            lane_3 = _round(lane_3, _word_at(data, at + _16))
            lane_4 = _round(lane_4, _word_at(data, at + _24))
            at += _32
        hashed = _rotate(lane_1, _ONE) + _rotate(lane_2, _7)
        hashed += _rotate(lane_3, _12) + _rotate(lane_4, _18)
        for lane in (lane_1, lane_2, lane_3, lane_4):
            hashed = (hashed ^ _round(_ZERO, lane)) * _PRIME_1 + _PRIME_4
    else:
        hashed = seed + _PRIME_5
    hashed += length
    while at + _8 <= end:
        hashed = _take_word(hashed, _word_at(data, at))
        at += _8
    if at + _4 <= end:
        hashed = _take_half(hashed, _half_at(data, at))
        at += _4
    while at < end:
        hashed = _rotate(hashed ^ (np.uint64(data[at]) * _PRIME_5), _11) * _PRIME_1
        at += _ONE
    return _finish(hashed)


@kernel
def is_valid(validity: Bytes, position: I64) -> bool:
    """Return whether bit `position` of the bitmap is set; an empty bitmap means no nulls."""
    return validity.size == 0 or (validity[position >> 3] >> (position & 7)) & 1 == 1


@kernel
def fold_bytes(offsets: Ints, data: Bytes, validity: Bytes, first: I64, hashes: Words) -> None:
    """Fold a column of strings or bytes into `hashes`."""
    for record in range(hashes.size):
        position = first + record
        if is_valid(validity, position):
            start, stop = offsets[position], offsets[position + 1]
            hashes[record] = hash_bytes(data, start, stop, hashes[record])


@kernel
def fold_longs(values: Ints, validity: Bytes, first: I64, hashes: Words) -> None:
    """Fold a column of 8-byte values into `hashes`."""
    for record in range(hashes.size):
        position = first + record
        if is_valid(validity, position):
            hashes[record] = hash_long(values[position], hashes[record])


@kernel
def fold_ints(values: SmallInts, validity: Bytes, first: I64, hashes: Words) -> None:
    """Fold a column of 4-byte values into `hashes`."""
    for record in range(hashes.size):
        position = first + record
        if is_valid(validity, position):
            hashes[record] = hash_int(values[position], hashes[record])


@kernel
def hash_ranks(ranks: Ints, out: Words) -> None:
    """Fill `out` with the hash of each BIGINT: `xxhash64(rank)` in Spark."""
    for record in range(ranks.size):
        out[record] = hash_long(ranks[record], SPARK_SEED)
