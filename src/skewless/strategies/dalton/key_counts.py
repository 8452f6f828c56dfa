"""How often each key occurred since the last clearing: exactly, by a sketch, or by a hybrid.

A hash table is exact and fast while it fits the cache; a count-min sketch does not grow with the
number of keys. The hybrid counts in the table, or in the sketch if there were many keys in the
period before (Dalton, section 5.3 and Figure 10). Memory is fixed, so keys that find the table full
are counted in the sketch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays import F64, U64, Rows
from skewless.kernels import count_min as sketches
from skewless.kernels.count_min import CountMin, count_min
from skewless.kernels.key_table import ABSENT, KeyTable, clear, find_slot, key_table
from skewless.plumbing.compiling import kernel
from skewless.state import MOST_COUNTED, require_same, require_that, require_within

COUNTERS = np.dtype(
    [
        ("n_keys", "i8"),  # keys met since the last clearing; with the sketch, at least this many
        ("in_table", "i8"),  # of them in the table
        ("room", "i8"),  # keys that the table takes
        ("sketches", "i8"),  # 1 while the table is not used
        ("least", "i8"),  # with more keys, the next period uses the sketch; negative: never changes
    ]
)

_NEVER_CHANGES = -1


class KeyCounts(NamedTuple):
    """A table, a sketch, and which of them is in use."""

    table: KeyTable
    sketch: CountMin
    counters: Rows  # [1]

    def check(self, fresh: KeyCounts) -> None:
        """Refuse counts that the table has no room for."""
        n_used = np.count_nonzero(self.table.values != ABSENT)
        constant = ["room", "least"] + ["sketches"] * int(fresh.counters[0]["least"] < 0)
        require_same("counters", self.counters[constant], fresh.counters[constant])
        require_that(
            self.counters[0]["in_table"] == n_used, "counters must count the keys of the table"
        )
        require_that(
            n_used <= self.counters[0]["room"], "table must have no more keys than there is room"
        )
        require_within("counters", self.counters["n_keys"], 0, MOST_COUNTED)
        require_within("counters", self.counters["sketches"], 0, 1)


def exact_counts(n_keys: int) -> KeyCounts:
    """Return exact counts for up to `n_keys` keys; those beyond count as met once."""
    sketch = count_min(0.5, 0.5)
    none = sketch._replace(cells=np.zeros((0, sketch.cells.shape[1])))
    return KeyCounts(key_table(n_keys), none, _counters(n_keys, 0, _NEVER_CHANGES))


def sketched_counts(epsilon: float, delta: float, seed: int) -> KeyCounts:
    """Return counts too high by at most `epsilon` of all records, with probability 1 − `delta`."""
    counters = _counters(0, 1, _NEVER_CHANGES)
    return KeyCounts(key_table(1), count_min(epsilon, delta, seed=seed), counters)


def hybrid_counts(n_keys: int, epsilon: float, delta: float, seed: int) -> KeyCounts:
    """Return counts that are exact while there are at most `n_keys` keys."""
    counters = _counters(n_keys, 0, n_keys)
    return KeyCounts(key_table(n_keys), count_min(epsilon, delta, seed=seed), counters)


def _counters(room: int, sketches: int, least: int) -> Rows:
    return np.array([(0, 0, room, sketches, least)], COUNTERS)


@kernel
def count(counts: KeyCounts, key: U64) -> F64:
    """Count a record of `key`; return how often it has occurred."""
    counters = counts.counters[0]
    if counters["sketches"] == 0:
        slot = find_slot(counts.table, key)
        known = counts.table.values[slot]
        if known != ABSENT:
            counts.table.values[slot] = known + 1
            return np.float64(known + 1)
        if counters["in_table"] < counters["room"]:
            counts.table.keys[slot] = key
            counts.table.values[slot] = 1
            counters["in_table"] += 1
            counters["n_keys"] += 1
            return 1.0
        if counts.sketch.cells.shape[0] == 0:
            return 1.0
    estimate = sketches.add(counts.sketch, key, 1.0)
    if estimate == 1.0:
        counters["n_keys"] += 1
    return estimate


@kernel
def count_of(counts: KeyCounts, key: U64) -> F64:
    """Look up the count of `key`, without counting it again."""
    if counts.counters[0]["sketches"] == 0:
        known = counts.table.values[find_slot(counts.table, key)]
        if known != ABSENT:
            return np.float64(known)
    if counts.sketch.cells.shape[0] == 0:
        return 0.0
    return sketches.estimate(counts.sketch, key)


@kernel
def forget_counts(counts: KeyCounts) -> None:
    """Clear all counts, and choose table or sketch by the number of keys that there were."""
    counters = counts.counters[0]
    if counters["in_table"] > 0:
        clear(counts.table)
    if counts.sketch.total[0] > 0.0:
        sketches.clear(counts.sketch)
    if counters["least"] >= 0:
        counters["sketches"] = np.int64(counters["n_keys"] > counters["least"])
    counters["n_keys"] = 0
    counters["in_table"] = 0
