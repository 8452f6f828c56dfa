"""What a plan is made from: vectors of keys with equal owner, home, cost and state size.

The paper's vector is (d′, d, d^h, v_c, v_S, #). Here d is `owners`, d^h `homes`, v_c `costs`, v_S
`sizes`, # `counts`; where keys go next, d′, is what the phases find out. In the full form each
key is a vector of its own. In the compact form costs and sizes are discretised, so that many keys
share a vector, and a plan says how many of them go where, not which.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import F64, I64, U64, Floats, Ints, Keys, SmallInts, Words, Workers
from skewless.kernels.key_table import ABSENT, KeyTable, find_slot, key_table
from skewless.plumbing.compiling import JIT_OFF, kernel

_DIGIT = 11  # bits; six digits make 66 of 64
_N_DIGITS = 6
_RADIX = 1 << _DIGIT
_MASK = np.uint64(_RADIX - 1)
_FEW = 2_000  # below this, clearing the counters takes longer than sorting


@kernel
def _count_digits(bits: Words, counts: Ints) -> None:
    for i in range(bits.size):
        rest = bits[i]
        for digit in range(_N_DIGITS):
            counts[digit * _RADIX + np.int64(rest & _MASK)] += 1
            rest = rest >> np.uint64(_DIGIT)


@kernel
def _sort_by_digit(
    bits: Words, order: SmallInts, shift: U64, before: Ints, new_bits: Words, new_order: SmallInts
) -> None:
    """Sort by one digit; bits move with their places, so that all reads are in sequence."""
    for i in range(order.size):
        digit = np.int64((bits[i] >> shift) & _MASK)
        place = before[digit]
        before[digit] = place + 1
        new_bits[place] = bits[i]
        new_order[place] = order[i]


def descending_order(values: Floats) -> SmallInts:
    """Return the places of `values`, none below 0, from the largest to the smallest.

    Of equal values, the first comes first. A rebalance sorts every key that was seen, and little
    else in it takes time: this radix sort is several times faster than a stable sort.

    >>> descending_order(np.array([1.0, 3.0, 0.0, 3.0])).tolist()
    [1, 3, 0, 2]
    """
    if JIT_OFF or values.size < _FEW:
        return np.argsort(-values, kind="stable").astype(np.int32)
    # Floats of one sign are ordered like their bits. Adding 0 makes −0 a 0.
    bits = ~(values + 0.0).view(np.uint64)
    counts = np.zeros(_N_DIGITS * _RADIX, np.int64)
    _count_digits(bits, counts)
    order = np.arange(values.size, dtype=np.int32)
    new_bits, new_order = np.empty_like(bits), np.empty_like(order)
    for digit, count in enumerate(counts.reshape(_N_DIGITS, _RADIX)):
        if count.max() < values.size:  # the digit is not the same everywhere
            before = np.cumsum(count) - count
            _sort_by_digit(bits, order, np.uint64(digit * _DIGIT), before, new_bits, new_order)
            bits, new_bits = new_bits, bits
            order, new_order = new_order, order
    return order


@kernel
def _migration_priority(costs: Floats, sizes: Floats, beta: F64, out: Floats) -> None:
    for i in range(costs.size):
        if costs[i] <= 0.0:
            out[i] = 0.0
        elif sizes[i] <= 0.0:
            out[i] = np.inf  # it costs nothing to move
        elif beta == 1.5:  # the default; several times as fast as a power
            out[i] = costs[i] * np.sqrt(costs[i]) / sizes[i]
        else:
            out[i] = costs[i] ** beta / sizes[i]


def migration_priority(costs: Floats, sizes: Floats, beta: float | None) -> Floats:
    """Return γ = c^β / S of each key; with no β, the cost alone (ψ of MinTable)."""
    if beta is None:
        return costs
    out = np.empty(costs.size)
    _migration_priority(costs, sizes, float(beta), out)
    return out


_WIDEST = 2.0**31  # the largest number in units of the smallest; below that, numbers are as 0


@kernel
def value_below(x: F64, degree: F64) -> F64:
    """Return the largest value not above `x`: 0 when `x` is below 1."""
    if x >= degree:
        return np.floor(x / degree) * degree
    if x < 1.0:
        return 0.0
    power = 1.0
    while 2.0 * power <= x:
        power *= 2.0
    return power


@kernel
def _discretise(
    xs: Floats,
    order: SmallInts,
    parts: Workers,
    degree: F64,
    tops: Floats,
    errors: Floats,
    out: Floats,
) -> None:
    for i in order:
        x = xs[i]
        part = parts[i]
        if x <= 0.0:
            out[i] = 0.0
            continue
        below = value_below(x, degree)
        if tops[part] == 0.0:  # y_1: the first number of a part is its largest
            tops[part] = below if x >= degree else max(0.5 * degree, 1.0)
        if x >= tops[part]:
            out[i] = tops[part]
        else:
            above = below + degree if x >= degree else max(2.0 * below, 1.0)
            low = errors[part] + (x - below)
            high = errors[part] + (x - above)
            out[i] = above if abs(high) < abs(low) else below
        errors[part] += x - out[i]


def discretise(
    values: Floats, degree: int, parts: SmallInts | None = None, order: SmallInts | None = None
) -> tuple[Floats, float]:
    """Return a few whole numbers for `values` (0 or more), and the unit that they count (HLHE).

    Half linear, half exponential: with degree R = 2^r they are the multiples of R and, below R, the
    powers of two. Each value takes the next one below or above it, whichever brings the sum of all
    errors so far closer to 0.

    Parameters
    ----------
    degree
        R: the distance of large values; a power of two.
    parts
        Errors cancel within each part, numbered from 0; None: all is one part.
    order
        The places of `values` from the largest to the smallest, where that is known; those of
        value 0 may be anywhere.

    The example of fig. 6 of Mixed: the sum is kept.

    >>> costs = np.array([8.0, 6, 3, 2, 2, 1, 1, 1, 1, 1])
    >>> discretise(costs, 4)[0].astype(int).tolist()
    [8, 4, 4, 2, 2, 2, 1, 1, 1, 1]
    """
    if parts is None:
        parts = np.zeros(values.size, np.int32)
    if not (values > 0).any():
        return np.zeros(values.size), 1.0
    unit = max(float(values[values > 0].min()), float(values.max()) / _WIDEST)
    out = np.empty(values.size)
    n_parts = int(parts.max()) + 1
    _discretise(
        values / unit,
        descending_order(values) if order is None else order,
        parts,
        float(degree),
        np.zeros(n_parts),
        np.zeros(n_parts),
        out,
    )
    return out, unit


Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Orders:
    """The orders of all keys that a plan needs; each is computed once, at its first use."""

    costs: Floats
    sizes: Floats
    _by_beta: dict[float, SmallInts] = field(default_factory=dict)

    @cached_property
    def by_cost(self) -> SmallInts:
        """From the largest cost to the smallest."""
        return descending_order(self.costs)

    @cached_property
    def by_size(self) -> SmallInts:
        """From the largest state to the smallest."""
        return descending_order(self.sizes)

    def by_priority(self, beta: float | None) -> SmallInts:
        """From the key that leaves first to the one that leaves last."""
        if beta is None:
            return self.by_cost
        if beta not in self._by_beta:
            priorities = migration_priority(self.costs, self.sizes, beta)
            self._by_beta[beta] = descending_order(priorities)
        return self._by_beta[beta]


class Observed(NamedTuple):
    """The reported keys, one entry each: what all algorithms begin with."""

    keys: Keys  # ascending
    costs: Floats  # c
    sizes: Floats  # S
    owners: Workers  # F
    homes: Workers  # h
    rest: Floats  # by worker: load of keys that are not reported, and of pinned ones
    orders: Orders  # of the costs and sizes above, made once
    pinned: Flags | None = None  # keys that no plan moves; None: there are none

    def movable_by_cost(self) -> SmallInts:
        """Return the places of the keys that are not pinned, from the largest cost down."""
        by_cost = self.orders.by_cost
        return by_cost if self.pinned is None else by_cost[~self.pinned[by_cost]]


class Vectors(NamedTuple):
    """Keys that are alike for the plan, one entry per kind."""

    costs: Floats
    sizes: Floats
    owners: Workers
    homes: Workers
    counts: SmallInts
    of_key: SmallInts  # the vector of each observed key
    orders: Orders  # of the vectors


def full(observed: Observed) -> Vectors:
    """Return one vector per key, with a count of 0 if the key is pinned."""
    n = observed.keys.size
    counts = np.ones(n, np.int32)
    if observed.pinned is not None:
        counts[observed.pinned] = 0
    _, costs, sizes, owners, homes, *_ = observed
    of_key = np.arange(n, dtype=np.int32)
    return Vectors(costs, sizes, owners, homes, counts, of_key, observed.orders)


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

    Errors cancel within each worker, as if its keys were discretised alone.
    """
    values = observed.costs
    if observed.pinned is not None:
        values = np.where(observed.pinned, 0.0, values)  # other keys must not cancel their errors
    costs, cost_unit = discretise(values, degree, observed.owners, observed.orders.by_cost)
    sizes, size_unit = discretise(observed.sizes, degree, observed.owners, observed.orders.by_size)
    pairs, _ = _numbered((costs.astype(np.uint64) << np.uint64(32)) | sizes.astype(np.uint64))
    n = np.uint64(n_workers)
    codes = (pairs.astype(np.uint64) * n + observed.owners.astype(np.uint64)) * n
    of_key, first = _numbered(codes + observed.homes.astype(np.uint64))
    movable = of_key if observed.pinned is None else of_key[~observed.pinned]
    kind_costs, kind_sizes = costs[first] * cost_unit, sizes[first] * size_unit
    return Vectors(
        kind_costs,
        kind_sizes,
        observed.owners[first],
        observed.homes[first],
        np.bincount(movable, minlength=first.size).astype(np.int32),
        of_key,
        Orders(kind_costs, kind_sizes),
    )
