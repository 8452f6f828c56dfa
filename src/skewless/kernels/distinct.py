"""Number of distinct keys in little memory: HyperLogLog (Flajolet et al. 2007).

2^p registers of one byte, standard error 1.04/√(2^p). `add`, `estimate` and `merge` work on plain
register arrays; `DistinctCounts` holds one counter per worker and keeps what the estimate needs
up to date, so that reading it after every record costs no more than adding.

Hashes must be well mixed (`hashing.seeded`). They have 64 bits, so the paper's correction for
large numbers, which mends 32-bit collisions, is not needed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from skewless._jit import kernel
from skewless.arrays import F64, I64, U64, Bytes, Floats, Ints

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_SHIFT_63 = np.uint64(63)
_TOP_BIT = np.uint64(1 << 63)


def registers(precision: int) -> Bytes:
    """Return an empty counter of 2^precision registers."""
    _check(precision)
    return np.zeros(1 << precision, np.uint8)


def _check(precision: int) -> None:
    if not 4 <= precision <= 18:
        raise ValueError(f"distinct: precision must be 4 … 18, not {precision}")


@kernel
def add(registers: Bytes, hashed: U64) -> bool:
    """Count `hashed`; return whether a register has grown, which a hash met before never does.

    The low bits choose the register, and the leading zeros of the others are what it remembers.
    """
    low_bits = np.uint64(registers.size - 1)
    register = np.int64(hashed & low_bits)
    rest = hashed | low_bits  # ends the run of zeros where the low bits begin
    # Most records change nothing, and one shift tells: rank > old iff the first `old` bits are 0.
    old = np.uint64(registers[register])
    if (rest >> _ONE) >> (_SHIFT_63 - old) != _ZERO:
        return False
    rank = 1
    while rest < _TOP_BIT:
        rest <<= _ONE
        rank += 1
    registers[register] = rank
    return True


@kernel
def estimate(registers: Bytes) -> F64:
    """Return the estimated number of distinct hashes, from all registers."""
    harmonic = 0.0
    zeros = 0
    for register in registers:
        harmonic += _part(register)
        if register == 0:
            zeros += 1
    return _estimated(registers.size, harmonic, zeros)


@kernel
def _part(register: I64) -> F64:
    """Return 2^−register, exactly."""
    return 1.0 / np.float64(_ONE << np.uint64(register))


@kernel
def _estimated(m: I64, harmonic: F64, zeros: I64) -> F64:
    """Flajolet et al., Fig. 3. m: registers, harmonic: Σ 2^−register, zeros: registers at 0."""
    if m == 16:
        alpha = 0.673
    elif m == 32:
        alpha = 0.697
    elif m == 64:
        alpha = 0.709
    else:
        alpha = 0.7213 / (1.0 + 1.079 / m)
    raw = alpha * m * m / harmonic
    if raw <= 2.5 * m and zeros > 0:
        return m * math.log(m / zeros)
    return raw


@kernel
def merge(into: Bytes, other: Bytes) -> None:
    """Let `into` count what either counted: the larger of each two registers."""
    for register in range(into.size):
        into[register] = max(into[register], other[register])


class DistinctCounts(NamedTuple):
    """Several counters, one per row, with the two sums that their estimates need.

    Adding to Σ 2^−register is exact, whatever the order of records, while precision + largest
    register ≤ 53, that is for up to about 2^53 keys.
    """

    registers: Bytes  # [counter, register]
    harmonic: Floats  # per counter: Σ 2^−register
    zeros: Ints  # per counter: registers that are 0


def distinct_counts(n_counters: int, precision: int) -> DistinctCounts:
    """Return `n_counters` empty counters of 2^precision registers each."""
    _check(precision)
    if n_counters < 1:
        raise ValueError(f"distinct: n_counters must be at least 1, not {n_counters}")
    m = 1 << precision
    return DistinctCounts(
        np.zeros((n_counters, m), np.uint8),
        np.full(n_counters, float(m)),
        np.full(n_counters, m, np.int64),
    )


@kernel
def add_to(counts: DistinctCounts, counter: I64, hashed: U64) -> bool:
    """Count `hashed` in one counter; return whether its estimate has grown."""
    row = counts.registers[counter]
    register = np.int64(hashed & np.uint64(row.size - 1))
    old = row[register]
    if not add(row, hashed):
        return False
    counts.harmonic[counter] += _part(row[register]) - _part(old)
    if old == 0:
        counts.zeros[counter] -= 1
    return True


@kernel
def estimate_of(counts: DistinctCounts, counter: I64) -> F64:
    """Return the estimate of one counter, in O(1)."""
    return _estimated(counts.registers.shape[1], counts.harmonic[counter], counts.zeros[counter])


@kernel
def reset(counts: DistinctCounts) -> None:
    """Let all counters begin again, as at the start of a window."""
    counts.registers[:] = 0
    counts.harmonic[:] = counts.registers.shape[1]
    counts.zeros[:] = counts.registers.shape[1]


def merged(counts: DistinctCounts, other: DistinctCounts) -> DistinctCounts:
    """Return counters that have counted what either has, counter by counter."""
    together = np.maximum(counts.registers, other.registers)
    return DistinctCounts(
        together,
        np.ldexp(1.0, -together.astype(np.int64)).sum(axis=1),
        np.count_nonzero(together == 0, axis=1).astype(np.int64),
    )
