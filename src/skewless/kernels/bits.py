"""Sets of workers as bits in 64-bit words."""

from __future__ import annotations

import numpy as np

from skewless.arrays import I64, U64, Words
from skewless.plumbing.compiling import kernel

_ONE = np.uint64(1)
_BITS = np.uint64(63)
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_SHIFT_58 = np.uint64(58)
_POSITIONS = np.zeros(64, np.int64)
for _i in range(64):
    _POSITIONS[(int(_DE_BRUIJN) << _i & (1 << 64) - 1) >> 58] = _i


@kernel
def words_for(n_workers: I64) -> I64:
    """Return the words that a set of workers takes."""
    return (n_workers + 63) >> 6


@kernel
def add_worker(row: Words, worker: I64) -> None:
    """Put `worker` into the set."""
    row[worker >> 6] |= _ONE << (np.uint64(worker) & _BITS)


@kernel
def lowest_bit(word: U64) -> I64:
    """Return the position of the lowest bit that is set; `word` is not 0."""
    alone = word & (~word + _ONE)
    return _POSITIONS[np.int64((alone * _DE_BRUIJN) >> _SHIFT_58)]


@kernel
def without_lowest(word: U64) -> U64:
    """Return `word` without its lowest set bit."""
    return word & (word - _ONE)
