"""HyperLogLog with Python's own integers, and exact counting."""

from __future__ import annotations

import math
from collections.abc import Iterable


def registers_of(hashes: Iterable[int], precision: int) -> list[int]:
    """The last `precision` binary digits choose, the position of the first 1 before them counts."""
    registers = [0] * 2**precision
    for hashed in hashes:
        digits = f"{hashed:064b}"
        before = digits[: 64 - precision]
        rank = before.index("1") + 1 if "1" in before else len(before) + 1
        chosen = int(digits[64 - precision :], 2)
        registers[chosen] = max(registers[chosen], rank)
    return registers


def estimate(registers: list[int]) -> float:
    m = len(registers)
    alpha = {16: 0.673, 32: 0.697, 64: 0.709}.get(m, 0.7213 / (1 + 1.079 / m))
    raw = alpha * m**2 / math.fsum(2.0**-register for register in registers)
    empty = registers.count(0)
    return m * math.log(m / empty) if raw <= 2.5 * m and empty else raw


def n_distinct(hashes: Iterable[int]) -> int:
    return len(set(hashes))
