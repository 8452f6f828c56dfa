"""How often keys occur, in fixed memory: exact while they fit, then lower bounds of the heaviest.

A hash table of counts. When it is full, every count is lowered by the largest count that is
dropped, and keys at 0 leave. So a count is never too high. Each lowering takes the same amount from
more than `n_kept` counts, so no count is too low by more than 1 / `n_kept` of all records. Counts
stop at the largest number that a ledger accepts.

Sources count their keys with it, for their reports.

References
----------
J. Misra, D. Gries: Finding repeated elements, Science of Computer Programming 2(2), 1982. Lowering
many counts at once: D. Anderson et al., A high-performance algorithm for identifying frequent items
in data streams, IMC 2017.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays import I64, U64, Floats, Ints, Keys
from skewless.kernels.hashing import mix
from skewless.plumbing.compiling import kernel
from skewless.state import MOST_COUNTED

# Positions in `numbers`: keys in the table; the most that it takes; how many stay when it is full;
# by how much a count may be too low.
HELD, MOST, KEPT, LOWERED = range(4)


class BoundedCounts(NamedTuple):
    """Slots, at most half of them in use."""

    keys: Keys
    counts: Ints  # 0 marks an empty slot
    numbers: Ints


def bounded_counts(n_kept: int) -> BoundedCounts:
    """Return counts that are exact for up to 2 · `n_kept` keys."""
    most = 2 * n_kept
    n_slots = 1 << (2 * most - 1).bit_length()
    numbers = np.array([0, most, n_kept, 0])
    return BoundedCounts(np.zeros(n_slots, np.uint64), np.zeros(n_slots, np.int64), numbers)


@kernel
def _slot(counts: BoundedCounts, key: U64) -> I64:
    """Return the slot that holds `key`, or the empty one where it would go."""
    mask = counts.keys.size - 1
    slot = np.int64(mix(key)) & mask
    while counts.counts[slot] != 0 and counts.keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@kernel
def _add(counts: BoundedCounts, keys: Keys, amounts: Ints | None, begin: I64) -> I64:
    """Count from `begin` on until a new key finds the table full; return how far that went."""
    numbers = counts.numbers
    for i in range(begin, keys.size):
        amount = np.int64(1) if amounts is None else amounts[i]
        if amount > 0:
            slot = _slot(counts, keys[i])
            if counts.counts[slot] == 0:
                if numbers[HELD] == numbers[MOST]:
                    return i
                counts.keys[slot] = keys[i]
                numbers[HELD] += 1
            counts.counts[slot] = min(counts.counts[slot] + amount, MOST_COUNTED)
    return keys.size


def _lower(counts: BoundedCounts) -> None:
    used = np.flatnonzero(counts.counts)
    keys, amounts = counts.keys[used], counts.counts[used]
    last = used.size - 1 - counts.numbers[KEPT]
    cut = int(np.partition(amounts, last)[last])  # the largest count that is dropped
    stays = amounts > cut
    counts.counts[:] = 0
    counts.numbers[HELD] = 0
    counts.numbers[LOWERED] += cut
    _add(counts, keys[stays], amounts[stays] - cut, 0)


def add(counts: BoundedCounts, keys: Keys, amounts: Ints | None = None) -> None:
    """Count one record of each key, or as many as `amounts` says; cutting `keys` changes nothing.

    >>> counts = bounded_counts(1)
    >>> add(counts, np.array([7, 7, 7, 8], np.uint64))
    >>> [found.tolist() for found in heaviest(counts, 9)]
    [[7, 8], [3, 1]]
    >>> add(counts, np.array([9], np.uint64))  # a third key is one too many: 8 leaves
    >>> [found.tolist() for found in heaviest(counts, 9)]
    [[7, 9], [2, 1]]
    """
    done = 0
    while True:
        done = _add(counts, keys, amounts, done)
        if done == keys.size:
            return
        _lower(counts)


def heaviest(counts: BoundedCounts, n_keys: int) -> tuple[Keys, Ints]:
    """Return the `n_keys` keys of the largest counts, ascending, and their counts.

    Of equal counts, the smaller key comes first.
    """
    used = np.flatnonzero(counts.counts)
    keys, amounts = counts.keys[used], counts.counts[used]
    if keys.size > n_keys:
        chosen = np.lexsort((keys, -amounts))[:n_keys]
        keys, amounts = keys[chosen], amounts[chosen]
    order = np.argsort(keys)
    return keys[order], amounts[order]


#: What one record of weight 1 counts where records have weights.
_UNITS = float(1 << 20)


def cost_units(weights: Floats) -> Ints:
    """Return weights as whole numbers, so that their sums do not depend on the order of records.

    The unit is about a millionth. A weight below it counts as one unit, unless it is 0, and a
    weight above a million as a million.

    >>> cost_units(np.array([0.0, 1e-9, 0.5, 2.0])).tolist()
    [0, 1, 524288, 2097152]
    """
    units = np.clip(np.ceil(weights * _UNITS), 0.0, _UNITS * _UNITS)
    return units.astype(np.int64)
