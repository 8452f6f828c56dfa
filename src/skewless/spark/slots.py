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
#: More partitions than Spark can have. With so many, the partition of a slot is its hash.
_MOST_PARTITIONS = (1 << 31) - 1


def unhashed(hashes: Any) -> Ints:
    """Return the INTs that Spark hashes to these; its murmur3 maps the INTs onto each other.

    >>> unhashed([933211791, -559580957]).tolist()
    [0, 1]
    """
    state: Any = np.array(hashes, np.int64).astype(np.uint32)
    # The steps of murmur3 in reverse; arithmetic of these arrays is modulo 2 ** 32.
    state = (state ^ state >> 16) * _inverse(0xC2B2AE35)
    state = (state ^ state >> 13 ^ state >> 26) * _inverse(0x85EBCA6B)
    state = state ^ state >> 16 ^ 4  # the length of an INT in bytes
    state = (state - np.uint32(0xE6546B64)) * _inverse(5)
    state = (_turned(state, 13) ^ _SPARK_SEED) * _inverse(0x1B873593)
    state = _turned(state, 15) * _inverse(0xCC9E2D51)
    found: Ints = state.view(np.int32).astype(np.int64)
    return found


def _inverse(factor: int) -> Any:
    return np.uint32(pow(factor, -1, 1 << 32))


def _turned(state: Any, bits: int) -> Any:
    return state >> bits | state << (32 - bits)


def even_slots(n_slots: int) -> Ints:
    """Return one integer per slot; slot i is on partition i modulo P, for every P."""
    return unhashed(np.arange(n_slots))


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
