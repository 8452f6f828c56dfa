"""Slots: integers that Spark's own hash partitioning sends to the partition that we want.

A stateful operator of Spark accepts only Spark's hash partitioning: a group goes to partition
`pmod(murmur3(group), P)`. So a group that shall live on partition p is named by an integer, its
slot, for which that is p. No salt, no lookup table: the first few integers do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skewless.arrays import Ints

_SPARK_SEED = 42
_MASK = 0xFFFFFFFF


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


def slots(n_slots: int, n_partitions: int) -> Ints:
    """Return one integer per slot; slot i lies on partition i modulo `n_partitions`.

    >>> slots(4, 4).tolist()
    [12, 6, 2, 0]
    >>> [murmur3(slot) % 4 for slot in slots(8, 4).tolist()]
    [0, 1, 2, 3, 0, 1, 2, 3]
    """
    if n_slots < 1 or n_partitions < 1:
        raise ValueError(f"slots and partitions must be at least 1: {n_slots}, {n_partitions}")
    wanted: list[list[int]] = [[] for _ in range(n_partitions)]
    for number in range(n_slots):
        wanted[number % n_partitions].append(number)
    found = np.empty(n_slots, np.int64)
    n_found, candidate = 0, 0
    while n_found < n_slots:
        places = wanted[murmur3(candidate) % n_partitions]
        if places:
            found[places.pop(0)] = candidate
            n_found += 1
        candidate += 1
    return found


def check_slots(spark: Any, found: Ints, n_partitions: int) -> None:
    """Raise RuntimeError unless this Spark places the slots as we computed.

    The mapping rests on Spark's hash, which no interface promises; so it is asked of Spark itself
    whenever a query is built.
    """
    values = ", ".join(f"({slot})" for slot in found.tolist())
    rows = spark.sql(
        f"SELECT CAST(slot AS INT) AS slot, pmod(hash(CAST(slot AS INT)), {n_partitions}) AS place "
        f"FROM VALUES {values} AS slots(slot)"
    ).collect()
    placed = {row["slot"]: row["place"] for row in rows}
    for number, slot in enumerate(found.tolist()):
        if placed[slot] != number % n_partitions:
            raise RuntimeError(
                f"this Spark places slot {slot} on partition {placed[slot]}, not on "
                f"{number % n_partitions}: its hash of integers is not the one that skewless knows"
            )
