"""Counters for the heaviest keys: a key's counter can be in one cache line only.

Places come in buckets of eight. A counted key is found by comparing eight keys. Any other key takes
the smallest place of its bucket with probability 1 / (1 + that place's count), and inherits the
count. So a key takes a place with count c only after about c of its records, keys that occur once
hardly disturb anything, and there is no order to maintain. Decay makes new records heavier instead
of old ones lighter.

References
----------
R. Ben Basat et al.: Randomized admission policy for efficient top-k and frequency estimation,
INFOCOM 2017.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from skewless.arrays import F64, I64, U64, Bytes, Floats, Ints, Keys
from skewless.plumbing.compiling import kernel
from skewless.state import MOST_WEIGHT, require_that, within

#: Counters that a source has: more than heavy keys can exist.
COUNTED_PER_WORKER = 16
#: Records, for each worker, after which counts fade.
EPOCH_PER_WORKER = 64
PLACES = 8
ABSENT = -1
LARGEST_UNIT = 1e150
_KEY_OF_EMPTY = np.uint64(0)
_AT_ONCE = 1 << 19  # places of all sources together that are merged at a time


@within(0, MOST_WEIGHT, "counts")
@within(1, LARGEST_UNIT, "unit")
class HeavyKeys(NamedTuple):
    """Places in buckets of eight; entry i is `keys[i]` with `counts[i] / unit[0]`.

    No hash leads to the last bucket. Its places stand for keys that are not counted.
    """

    keys: Keys
    counts: Floats  # stored: in today's records times `unit`; 0 where there is no key
    unit: Floats  # [what one record of today adds to a stored count]


def heavy_keys(n_keys: int) -> HeavyKeys:
    """Return empty counters for at least `n_keys` keys."""
    n_buckets = 1 << max(0, (-(-n_keys // PLACES) - 1).bit_length())
    n_all = (n_buckets + 1) * PLACES
    return HeavyKeys(np.zeros(n_all, np.uint64), np.zeros(n_all), np.ones(1))


@kernel
def n_places(heavy: HeavyKeys) -> I64:
    """Count the places for keys."""
    return heavy.keys.size - PLACES


@kernel
def first_place(heavy: HeavyKeys, hashed: U64) -> I64:
    """Return where the bucket of a hash begins."""
    return np.int64(hashed & np.uint64(n_places(heavy) // PLACES - 1)) * PLACES


@kernel
def find(heavy: HeavyKeys, first: I64, key: U64) -> I64:
    """Return the place of `key` in the bucket that begins at `first`, or ABSENT.

    All eight are compared, without an early exit: no branch to predict. Key 0 is an exception.
    Empty places hold it too, and only the count tells them apart.
    """
    keys = heavy.keys
    if key == _KEY_OF_EMPTY:
        for place in range(first, first + PLACES):
            if keys[place] == key and heavy.counts[place] > 0.0:
                return place
        return ABSENT
    which = (
        np.int64(keys[first] == key)
        | np.int64(keys[first + 1] == key) * 2
        | np.int64(keys[first + 2] == key) * 3
        | np.int64(keys[first + 3] == key) * 4
        | np.int64(keys[first + 4] == key) * 5
        | np.int64(keys[first + 5] == key) * 6
        | np.int64(keys[first + 6] == key) * 7
        | np.int64(keys[first + 7] == key) * 8
    )
    return first + which - 1 if which else ABSENT


@kernel
def admit(heavy: HeavyKeys, first: I64, key: U64, amount: F64, chance: F64) -> I64:
    """Give `key` the smallest place of its bucket, or none, at random; return it or ABSENT.

    `chance` is uniform in [0, 1). `amount` is what the record adds to a stored count.
    """
    smallest = first
    for i in range(first + 1, first + PLACES):
        smallest = i if heavy.counts[i] < heavy.counts[smallest] else smallest
    count = heavy.counts[smallest] + amount
    if chance * count >= amount:
        return ABSENT
    heavy.keys[smallest] = key
    heavy.counts[smallest] = count
    return smallest


@kernel
def fade(heavy: HeavyKeys, factor: F64) -> bool:
    """Multiply all counts by `factor`, in (0, 1]; return whether stored counts have changed."""
    heavy.unit[0] /= factor
    if heavy.unit[0] < LARGEST_UNIT:
        return False
    for i in range(heavy.counts.size):
        heavy.counts[i] /= heavy.unit[0]
    heavy.unit[0] = 1.0
    return True


def largest_together(
    heavies: Sequence[HeavyKeys], marks: Sequence[Ints] | None = None, joined: np.ufunc = np.add
) -> tuple[HeavyKeys, Ints]:
    """Return the largest keys of all sources together, and for each the largest of its marks.

    `joined` combines the counts of a key; each bucket keeps the eight largest. The order of the
    sources does not matter. A key is in the same bucket for all sources, so a few buckets are
    merged at a time.
    """
    size = n_places(heavies[0])
    merged, merged_marks = heavy_keys(size), np.ones(size, np.int64)
    marks = marks or [np.ones(size, np.int64) for _ in heavies]
    step = max(1, _AT_ONCE // len(heavies) // PLACES) * PLACES
    for begin in range(0, size, step):
        part = slice(begin, min(begin + step, size))
        counts = np.concatenate([heavy.counts[part] / heavy.unit[0] for heavy in heavies])
        used = np.flatnonzero(counts > 0.0)
        keys = np.concatenate([heavy.keys[part] for heavy in heavies])[used]
        buckets = np.tile(np.arange(begin, part.stop) // PLACES, len(heavies))[used]

        order = np.lexsort((counts[used], keys, buckets))
        keys, buckets, used = keys[order], buckets[order], used[order]
        is_first = np.ones(used.size, np.bool_)
        is_first[1:] = (np.diff(buckets) != 0) | (keys[1:] != keys[:-1])
        starts = np.flatnonzero(is_first)
        sums = joined.reduceat(counts[used], starts)
        largest = np.maximum.reduceat(np.concatenate([m[part] for m in marks])[used], starts)

        order = np.lexsort((keys[starts], -sums, buckets[starts]))
        buckets = buckets[starts][order]
        rank = np.arange(buckets.size) - np.searchsorted(buckets, buckets)
        places, kept = (buckets * PLACES + rank)[rank < PLACES], order[rank < PLACES]
        merged.keys[places] = keys[starts][kept]
        merged.counts[places] = sums[kept]
        merged_marks[places] = largest[kept]
    return merged, merged_marks


@within(0, PLACES, "filled")
@within(0, MOST_WEIGHT, "counts")
@within(1, LARGEST_UNIT, "unit")
class Counted(NamedTuple):
    """The counted keys, in the order of their buckets."""

    filled: Bytes  # counted keys of each bucket
    keys: Keys
    counts: Floats
    unit: Floats

    def check(self, fresh: Counted) -> None:
        """Refuse counters that do not fit into their buckets."""
        n_keys = self.keys.size
        require_that(self.counts.size == n_keys, f"counts must be {n_keys}, one per key")
        total = int(self.filled.sum(dtype=np.int64))
        require_that(total == n_keys, f"filled must add up to the number of keys, {n_keys}")

    def counters(self) -> tuple[HeavyKeys, Ints]:
        """Return the counters of these keys, and the place of each."""
        # Keys fill the places of their bucket from the first on.
        begins = np.cumsum(self.filled, dtype=np.int64) - self.filled
        buckets = np.repeat(np.arange(self.filled.size), self.filled)
        places = buckets * PLACES + np.arange(self.keys.size) - begins[buckets]
        n_all = (self.filled.size + 1) * PLACES
        heavy = HeavyKeys(np.zeros(n_all, np.uint64), np.zeros(n_all), self.unit)
        heavy.keys[places] = self.keys
        heavy.counts[places] = self.counts
        return heavy, places


def counted(heavy: HeavyKeys) -> tuple[Counted, Ints]:
    """Return the counted keys, and their places."""
    size = n_places(heavy)
    used = np.flatnonzero(heavy.counts[:size] > 0.0)
    filled = np.bincount(used // PLACES, minlength=size // PLACES).astype(np.uint8)
    return Counted(filled, heavy.keys[used], heavy.counts[used], heavy.unit.copy()), used
