"""SpaceSaving: the most frequent keys of a stream in fixed memory, with weights and decay.

A summary monitors up to `capacity` keys. The record of a key that is not monitored takes the place
of the entry with the smallest count (of those, the one whose last update is the oldest), inherits
its count as a possible error, and adds its own weight. Hence, with N the weight of all records:

- true weight ≤ count, and count − error ≤ true weight;
- error ≤ N / capacity, so every key with more than N / capacity is monitored.

How the smallest entry is found: entries never change place; each stands once in a queue or in a
4-ary heap, with the (count, stamp) that it had when it was put there. Both only grow, so that is a
lower bound: the smaller of the two fronts is the true minimum if it is up to date; otherwise it
goes (back) to the heap with what it has by now. A hit therefore touches neither, and many hits of
one key cost one sinking at most. A newcomer that is not smaller than the one before goes to the end
of the queue, for a few stores: with equal weights that is every newcomer.

Decay touches no counter: instead of making old records lighter it makes new ones heavier.

The monitored keys are entries 0 … size[0] − 1, in no particular order: entry i is the key `keys[i]`
with `counts[i] / unit[0]`, of which `errors[i] / unit[0]` may belong to other keys.

References
----------
A. Metwally, D. Agrawal, A. El Abbadi: Efficient computation of frequent and top-k elements in data
streams, ICDT 2005, Fig. 1. Only `strategies/fish` merges summaries; the code for it is there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays import F64, I32, I64, U64, Floats, Ints, Keys, SmallInts
from skewless.kernels.key_table import (
    ABSENT,
    KeyTable,
    find_slot,
    key_table,
    remove_slot,
    require_entries,
)
from skewless.plumbing.compiling import kernel
from skewless.state import MOST_COUNTED, MOST_WEIGHT, fixed, require_within, within, zeros

#: The unit at which stored counts are brought back to today's: far from the largest float.
_LARGEST_UNIT = 1e200
#: Before the first stamp: the stamp in the queue of an entry whose true one is not known.
_NEVER = -1


class Order(NamedTuple):
    """Earlier counts and stamps of entries, by place.

    A heap of up to `capacity` places begins at 0, the smallest there, the children of i from 4i + 1
    on. Behind it come three more, so that every parent has four children; places of the heap
    without an entry have an infinite count. The rest is the queue: a ring, ascending from its head.
    """

    counts: Floats
    stamps: Ints
    entries: SmallInts


@within(0, MOST_WEIGHT, "counts", "errors", "total")
@within(1, _LARGEST_UNIT, "unit")
@within(0, MOST_COUNTED, "clock")
class SpaceSaving(NamedTuple):
    """Entries, where their keys are found, and in what order they will be evicted."""

    table: KeyTable  # key -> entry
    keys: Keys
    counts: Floats  # stored: in today's records times `unit`
    errors: Floats  # stored likewise
    stamps: Ints  # when the entry was last updated
    order: Order
    head: Ints  # [place where the queue begins]
    heap_size: Ints  # [number of entries in the heap]; all others are in the queue
    size: Ints  # [number of entries in use]
    clock: Ints  # [number of offers so far]
    unit: Floats  # [what one record of today adds to a stored count]
    total: Floats  # [stored weight of all records offered]

    def check(self, fresh: SpaceSaving) -> None:
        """Refuse entries that do not exist, and an order with which eviction would fail."""
        capacity, begin = self.keys.size, self.keys.size + 3
        require_within("size", self.size, 0, capacity)
        require_within("heap_size", self.heap_size, 0, capacity)
        require_within("head", self.head, begin, self.order.counts.size - 1)
        require_within("order.entries", self.order.entries, 0, capacity - 1)
        free = np.arange(int(self.size[0]), capacity)
        require_entries(self.table, self.keys, free)
        n_heap = int(self.heap_size[0])
        require_within("order.counts", self.order.counts[:n_heap], 0, MOST_WEIGHT)
        require_within("order.counts", self.order.counts[n_heap:begin], np.inf, np.inf)
        require_within("order.counts", self.order.counts[begin:], 0, MOST_WEIGHT)


def space_saving(capacity: int) -> SpaceSaving:
    """Return an empty summary of up to `capacity` keys."""
    if capacity < 1:
        raise ValueError(f"capacity must be an integer of at least 1, not {capacity!r}")
    summary = zeros(
        SpaceSaving,
        capacity,
        # Sparse, because an eviction searches three runs of occupied slots. And with room for one
        # more key, because the newcomer enters before the evicted one leaves.
        table=key_table(3 * capacity),
        order=zeros(Order, 2 * capacity + 3),
        unit=np.ones(1),
        **dict.fromkeys(("head", "heap_size", "size", "clock", "total"), 1),
    )
    _forget_order(summary)
    return summary


@kernel
def _forget_order(summary: SpaceSaving) -> None:
    """Put every entry into the queue as one that may be the smallest."""
    begin = summary.keys.size + 3
    for place in range(begin):
        summary.order.counts[place] = np.inf
    for entry in range(summary.keys.size):
        _set(summary.order, begin + entry, 0.0, _NEVER, entry)
    summary.head[0] = begin
    summary.heap_size[0] = 0


@kernel
def _less(count: F64, stamp: I64, other_count: F64, other_stamp: I64) -> bool:
    """Return whether (count, stamp) comes before the other, without an unpredictable branch."""
    return bool((count < other_count) | ((count <= other_count) & (stamp < other_stamp)))


@kernel
def _set(order: Order, place: I64, count: F64, stamp: I64, entry: I32) -> None:
    order.counts[place] = count
    order.stamps[place] = stamp
    order.entries[place] = entry


@kernel
def _sink(order: Order, n: I64, count: F64, stamp: I64, entry: I32) -> None:
    """Put an entry in place of the root of a heap of `n`, and down to where it belongs."""
    place = 0
    child = 1
    while child < n:
        # The least of four children in two rounds. Selecting their values along with their places
        # avoids a second read, for which everything after it would wait.
        a_count, a_stamp = order.counts[child], order.stamps[child]
        b_count, b_stamp = order.counts[child + 1], order.stamps[child + 1]
        c_count, c_stamp = order.counts[child + 2], order.stamps[child + 2]
        d_count, d_stamp = order.counts[child + 3], order.stamps[child + 3]
        is_b = _less(b_count, b_stamp, a_count, a_stamp)
        is_d = _less(d_count, d_stamp, c_count, c_stamp)
        a_count = b_count if is_b else a_count
        a_stamp = b_stamp if is_b else a_stamp
        c_count = d_count if is_d else c_count
        c_stamp = d_stamp if is_d else c_stamp
        is_c = _less(c_count, c_stamp, a_count, a_stamp)
        child += 2 + np.int64(is_d) if is_c else np.int64(is_b)
        a_count = c_count if is_c else a_count
        a_stamp = c_stamp if is_c else a_stamp
        if _less(count, stamp, a_count, a_stamp):
            break
        _set(order, place, a_count, a_stamp, order.entries[child])
        place = child
        child = 4 * place + 1
    _set(order, place, count, stamp, entry)


@kernel
def _rise(order: Order, n: I64, count: F64, stamp: I64, entry: I32) -> None:
    """Put an entry behind the last of a heap of `n`, and up to where it belongs."""
    place = n
    while place > 0:
        parent = (place - 1) >> 2
        if not _less(count, stamp, order.counts[parent], order.stamps[parent]):
            break
        _set(order, place, order.counts[parent], order.stamps[parent], order.entries[parent])
        place = parent
    _set(order, place, count, stamp, entry)


@kernel
def _put_back(summary: SpaceSaving, place: I64, is_new: bool) -> None:
    """Move the entry at `place`, which is the front, to where it belongs by now."""
    order = summary.order
    begin, end = summary.keys.size + 3, order.counts.size
    entry = order.entries[place]
    count, stamp = summary.counts[entry], summary.stamps[entry]
    n = summary.heap_size[0]
    free = summary.head[0] + summary.keys.size - n
    free = free if free < end else free - summary.keys.size
    # An empty queue still holds its last entry: the smallest when it left, so all are above it.
    last = free - 1 if free > begin else end - 1
    # Old entries stay out of the queue: behind a hot key's count, nothing could enter it again.
    to_queue = is_new and not _less(count, stamp, order.counts[last], order.stamps[last])
    if to_queue:
        _set(order, free, count, stamp, entry)
    if place > 0:
        summary.head[0] = place + 1 if place + 1 < end else begin
        if not to_queue:
            _rise(order, n, count, stamp, entry)
            summary.heap_size[0] = n + 1
        return
    if to_queue:  # the last of the heap takes the root's place
        n -= 1
        summary.heap_size[0] = n
        count, stamp, entry = order.counts[n], order.stamps[n], order.entries[n]
        order.counts[n] = np.inf
    if n > 0:
        _sink(order, n, count, stamp, entry)


@kernel
def _evict(summary: SpaceSaving, amount: F64) -> I32:
    """Evict the smallest entry of a full summary, and return it for another key."""
    order = summary.order
    entry = np.int32(ABSENT)
    is_new = False
    while not is_new:
        head = summary.head[0]
        is_root = _less(order.counts[0], order.stamps[0], order.counts[head], order.stamps[head])
        is_heap = is_root | (summary.heap_size[0] == summary.keys.size)  # then no queue is left
        place = 0 if is_heap else head
        entry = order.entries[place]
        is_new = order.stamps[place] == summary.stamps[entry]
        if is_new:
            summary.errors[entry] = summary.counts[entry]
            summary.counts[entry] += amount
            summary.stamps[entry] = summary.clock[0]
        _put_back(summary, place, is_new)
    return entry


@kernel
def admit(summary: SpaceSaving, key: U64, slot: I64, amount: F64) -> I32:
    """Return a new entry for `key`, whose empty slot is known.

    `offer` has already counted the record in `clock` and `total`.
    """
    entry = np.int32(summary.size[0])
    is_full = summary.size[0] == summary.keys.size
    if is_full:
        entry = _evict(summary, amount)
    else:
        summary.size[0] += 1
        summary.counts[entry] = amount
        summary.stamps[entry] = summary.clock[0]
    summary.table.keys[slot] = key
    summary.table.values[slot] = entry
    if is_full:
        remove_slot(summary.table, find_slot(summary.table, summary.keys[entry]))
    summary.keys[entry] = key
    return entry


@kernel
def offer(summary: SpaceSaving, key: U64, weight: F64) -> F64:
    """Count a record of this weight (0 or more), and return the new estimate of its key."""
    unit = summary.unit[0]
    amount = weight * unit
    summary.total[0] += amount
    summary.clock[0] += 1
    slot = find_slot(summary.table, key)
    entry = summary.table.values[slot]
    if entry == ABSENT:
        return summary.counts[admit(summary, key, slot, amount)] / unit
    count = summary.counts[entry] + amount
    summary.counts[entry] = count
    summary.stamps[entry] = summary.clock[0]
    return count / unit


@kernel
def total(summary: SpaceSaving) -> F64:
    """Return the weight of all records offered, decayed like the counts."""
    return summary.total[0] / summary.unit[0]


@kernel
def list_shares(summary: SpaceSaving, above: F64, total: F64, shares: Floats) -> I64:
    """Fill `shares` with counts / `total` of the keys that count more than `above`, in any order.

    Return how many there are.
    """
    n_listed = 0
    for entry in range(summary.size[0]):
        if summary.counts[entry] > above:
            shares[n_listed] = summary.counts[entry] / total
            n_listed += 1
    return n_listed


@kernel
def decay(summary: SpaceSaving, factor: F64) -> None:
    """Multiply all estimates, errors and the total by `factor`, in [0, 1].

    With 0, keys keep their places with a count of 0, until they occur again or are evicted.
    """
    unit = summary.unit[0] / factor if factor > 0.0 else np.inf
    summary.unit[0] = unit
    if unit > _LARGEST_UNIT:
        for entry in range(summary.size[0]):
            summary.counts[entry] /= unit
            summary.errors[entry] /= unit
        summary.total[0] /= unit
        summary.unit[0] = 1.0
        _forget_order(summary)  # rounding may have made different counts equal


def entries(summary: SpaceSaving) -> tuple[Keys, Floats, Floats]:
    """Return the monitored keys, their estimates and errors, the largest estimate first.

    >>> summary = space_saving(2)
    >>> for key in [7, 7, 8, 9]:
    ...     _ = offer(summary, np.uint64(key), 1.0)
    >>> keys, counts, errors = entries(summary)
    >>> keys.tolist(), counts.tolist(), errors.tolist()
    ([7, 9], [2.0, 2.0], [0.0, 1.0])
    """
    size = int(summary.size[0])
    keys = summary.keys[:size]
    counts = summary.counts[:size] / summary.unit[0]
    errors = summary.errors[:size] / summary.unit[0]
    order = np.lexsort((keys, errors, -counts))
    return keys[order], counts[order], errors[order]


@fixed("threshold")
class Head(NamedTuple):
    """A summary of this source's keys, and the share of its records that makes a key hot."""

    summary: SpaceSaving
    threshold: Floats


def head(n_workers: int, hot_factor: float, capacity: int | None) -> Head:
    """Return a head that calls a key hot above `hot_factor` / n of the records.

    A summary of c keys overestimates by up to 1/c of the records. So it needs more places than
    there can be hot keys, n / `hot_factor`; with fewer, cold keys pass for hot ones.
    """
    places = capacity if capacity is not None else int(np.ceil(n_workers / hot_factor))
    return Head(space_saving(places), np.array([hot_factor / n_workers]))


@kernel
def is_hot(head: Head, key: U64) -> bool:
    """Count a record of `key`, then return whether the key is hot."""
    estimate = offer(head.summary, key, 1.0)
    return bool(estimate > head.threshold[0] * head.summary.total[0])
