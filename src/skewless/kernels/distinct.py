"""Number of distinct keys in little memory: HyperLogLog (Flajolet et al. 2007).

2^p registers of one byte give a standard error of 1.04/√(2^p). To merge two counters, take the
larger of each two registers.

Hashes must be well mixed (`hashing.seeded`). They have 64 bits, so the paper's correction for
large numbers, which mends 32-bit collisions, is not needed.
"""

from __future__ import annotations

import math

import numpy as np

from skewless.arrays import F64, U64, Bytes
from skewless.plumbing.compiling import kernel

_ONE = np.uint64(1)
_ZERO = np.uint64(0)
_SHIFT_63 = np.uint64(63)
_TOP_BIT = np.uint64(1 << 63)


def registers(precision: int) -> Bytes:
    """Return an empty counter of 2^precision registers; `precision` is 7 … 18."""
    return np.zeros(1 << precision, np.uint8)


@kernel
def add(registers: Bytes, hashed: U64) -> bool:
    """Count `hashed`; return whether a register has grown, which a hash met before never does.

    The low bits choose the register, and the leading zeros of the others are what it remembers.
    """
    low_bits = np.uint64(registers.size - 1)
    register = np.int64(hashed & low_bits)
    rest = hashed | low_bits  # ends the run of zeros where the low bits begin
    # Most records change nothing. One shift shows it: rank > old iff the first `old` bits are 0.
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
    """Return the estimated number of distinct hashes (Flajolet et al., Fig. 3)."""
    m = registers.size
    harmonic = 0.0  # Σ 2^−register
    zeros = 0  # registers at 0
    for register in registers:
        harmonic += 1.0 / np.float64(_ONE << np.uint64(register))
        if register == 0:
            zeros += 1
    raw = 0.7213 / (1.0 + 1.079 / m) * m * m / harmonic
    return m * math.log(m / zeros) if raw <= 2.5 * m and zeros > 0 else raw
