"""What a plan is made from: vectors of keys that live, belong, cost and weigh the same.

The paper's vector is (d′, d, d^h, v_c, v_S, #). Here d is `owners`, d^h `homes`, v_c `costs`, v_S
`sizes`, # `counts`; where keys go next, d′, is what the phases find out. In the full form each
key is a vector of its own. In the compact form costs and sizes are discretised, so that many keys
share a vector, and a plan says of how many of them go where, not of which.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless._jit import kernel
from skewless.arrays import I64, Floats, Ints, Keys, SmallInts, Words, Workers
from skewless.kernels.key_table import ABSENT, KeyTable, find_slot, key_table
from skewless.strategies.rebalancing.discretisation import discretise


class Observed(NamedTuple):
    """The reported keys, one entry each: what all algorithms begin with."""

    keys: Keys  # ascending
    costs: Floats  # c
    sizes: Floats  # S
    owners: Workers  # F
    homes: Workers  # h
    rest: Floats  # by worker: load of keys that are not reported


class Vectors(NamedTuple):
    """Keys that are alike for the plan, one entry per kind."""

    costs: Floats
    sizes: Floats
    owners: Workers
    homes: Workers
    counts: Ints
    of_key: SmallInts  # the vector of each observed key


def full(observed: Observed) -> Vectors:
    """Return one vector per key."""
    n = observed.keys.size
    _, costs, sizes, owners, homes, _ = observed
    return Vectors(costs, sizes, owners, homes, np.ones(n, np.int64), np.arange(n, dtype=np.int32))


@kernel
def _number(codes: Words, table: KeyTable, numbers: SmallInts, first: Ints) -> I64:
    """Number the distinct codes in the order in which they come; return how many there are."""
    found = 0
    for i in range(codes.size):
        slot = find_slot(table, codes[i])
        if table.values[slot] == ABSENT:
            table.keys[slot] = codes[i]
            table.values[slot] = found
            first[found] = i
            found += 1
        numbers[i] = table.values[slot]
    return found


def _numbered(codes: Words) -> tuple[SmallInts, Ints]:
    numbers = np.empty(codes.size, np.int32)
    first = np.empty(codes.size, np.int64)
    n_distinct = _number(codes, key_table(codes.size), numbers, first)
    return numbers, first[:n_distinct]


def compact(observed: Observed, degree: int, n_workers: int) -> Vectors:
    """Return the vectors of discretised keys, in the order of their first keys.

    Each worker's errors cancel by themselves, as if it had discretised its own keys.
    """
    costs, cost_unit = discretise(observed.costs, degree, observed.owners)
    sizes, size_unit = discretise(observed.sizes, degree, observed.owners)
    pairs, _ = _numbered((costs.astype(np.uint64) << np.uint64(32)) | sizes.astype(np.uint64))
    n = np.uint64(n_workers)
    codes = (pairs.astype(np.uint64) * n + observed.owners.astype(np.uint64)) * n
    of_key, first = _numbered(codes + observed.homes.astype(np.uint64))
    return Vectors(
        costs[first] * cost_unit,
        sizes[first] * size_unit,
        observed.owners[first],
        observed.homes[first],
        np.bincount(of_key, minlength=first.size).astype(np.int64),
        of_key,
    )
