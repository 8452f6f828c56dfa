"""Slots: integers that Spark's hash partitioning sends to the partition that we choose.

A stateful operator of Spark accepts only Spark's hash partitioning: a group goes to partition
`pmod(murmur3(group), P)`. So a group for partition p is named by an integer, its slot, for which
that number is p. Even slots are the integers that Spark hashes to 0, 1, 2 and so on, which spread
evenly over any number of partitions: a restart may have another P.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skewless.arrays import Ints

_SPARK_SEED = 42
_MASK = 0xFFFFFFFF
#: More partitions than Spark can have. With so many, the partition of a slot is its hash.
_MOST_PARTITIONS = (1 << 31) - 1


def murmur3(value: int, seed: int = _SPARK_SEED) -> int:
    """Return Spark's `hash(value)` of an INT.

    >>> murmur3(0), murmur3(1)
    (933211791, -559580957)
    """
    mixed = (value & _MASK) * 0xCC9E2D51 & _MASK
    mixed = ((mixed << 15) | (mixed >> 17)) & _MASK
    state = (seed & _MASK) ^ (mixed * 0x1B873593 & _MASK)
    state = ((state << 13) | (state >> 19)) & _MASK
    state = (state * 5 + 0xE6546B64) & _MASK
    state ^= 4  # the length of an INT in bytes
    state = (state ^ (state >> 16)) * 0x85EBCA6B & _MASK
    state = (state ^ (state >> 13)) * 0xC2B2AE35 & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def unhash(hashed: int, seed: int = _SPARK_SEED) -> int:
    """Return the INT that Spark hashes to `hashed`; murmur3 maps the INTs onto each other.

    >>> unhash(933211791), murmur3(unhash(7))
    (0, 7)
    """
    state = _unshifted(hashed & _MASK, 16) * _inverse(0xC2B2AE35) & _MASK
    state = _unshifted(state, 13) * _inverse(0x85EBCA6B) & _MASK
    state = _unshifted(state, 16) ^ 4
    state = (state - 0xE6546B64) * _inverse(5) & _MASK
    state = ((state >> 13) | (state << 19)) & _MASK
    mixed = (state ^ (seed & _MASK)) * _inverse(0x1B873593) & _MASK
    mixed = ((mixed >> 15) | (mixed << 17)) & _MASK
    value = mixed * _inverse(0xCC9E2D51) & _MASK
    return value - (1 << 32) if value >> 31 else value


def _inverse(factor: int) -> int:
    return pow(factor, -1, 1 << 32)


def _unshifted(mixed: int, bits: int) -> int:
    """Return x for which x ^ (x >> bits) is `mixed`."""
    found = mixed
    for _ in range(32 // bits):  # each turn makes `bits` more of the bits right
        found = mixed ^ (found >> bits)
    return found


def even_slots(n_slots: int) -> Ints:
    """Return one integer per slot; slot i is on partition i modulo P, for every P.

    >>> [murmur3(slot) for slot in even_slots(4).tolist()]
    [0, 1, 2, 3]
    """
    if n_slots < 1:
        raise ValueError(f"n_slots must be at least 1, not {n_slots}")
    return np.array([unhash(number) for number in range(n_slots)], np.int64)


def check_slots(spark: Any, found: Ints) -> None:
    """Raise RuntimeError unless this Spark places even slots as we computed.

    The mapping depends on Spark's hash, which no interface promises. So Spark computes it once for
    every query, and the two are compared.
    """
    values = ", ".join(f"({slot})" for slot in found.tolist())
    hashed = f"pmod(hash(CAST(slot AS INT)), {_MOST_PARTITIONS})"
    rows = spark.sql(f"SELECT slot, {hashed} AS place FROM VALUES {values} AS slots(slot)")
    placed = {row["slot"]: row["place"] for row in rows.collect()}
    for number, slot in enumerate(found.tolist()):
        if placed[slot] != number:
            raise RuntimeError(
                f"this Spark places slot {slot} on partition {placed[slot]}, not on {number}: its "
                "hash of integers is not the expected one"
            )
