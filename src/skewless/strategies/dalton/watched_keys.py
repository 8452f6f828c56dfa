"""Rows for the keys that a strategy follows one by one: which key has which, and until when.

There are a fixed number of rows. A key gets one when it is frequent enough to be watched, and is
hot until the period that its row names. A row counts its key's records of the present period and
of the one before, so that what is known of a key does not depend on where a period ends. Rows of
keys that are hot over all sources also hold what the sources know together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays import F64, I32, I64, U64, Floats, Ints, SmallInts, Words
from skewless.kernels.key_table import (
    ABSENT,
    KeyTable,
    find_slot,
    key_table,
    remove_slot,
    require_entries,
)
from skewless.plumbing.compiling import kernel
from skewless.state import MOST_WEIGHT, require_within, within, zeros

#: Later than any period.
ALWAYS = np.int64(2**62)
#: Before any period: the key is watched and has never been hot.
NEVER = np.int64(-1)


@within(-MOST_WEIGHT, MOST_WEIGHT, "counts", "before", "untold")
@within(0, MOST_WEIGHT, "shared")
class WatchedKeys(NamedTuple):
    """Rows 0 … n_rows − 1, of which `free[: n_free[0]]` are free."""

    table: KeyTable  # key -> row
    keys: Words
    homes: SmallInts  # the key's worker by hash
    counts: Floats  # records of the key in this period
    before: Floats  # in the period before; negative: not known, because the row is new
    untold: Floats  # with `counts`: records since the last message to the other sources
    frequent: Ints  # the last period in which the key had enough records for a row
    until: Ints  # the last period in which the key is hot
    shared: Floats  # faded records of the key at all sources; 0: not hot over all of them
    deadline: Ints  # on the clock of all sources: when the key is cold, unless frequent again
    free: SmallInts  # a stack
    n_free: Ints

    def check(self, fresh: WatchedKeys) -> None:
        """Refuse rows that do not exist, and rows that are neither free nor of exactly one key."""
        require_within("n_free", self.n_free, 0, self.free.size)
        require_entries(self.table, self.keys, self.free[: int(self.n_free[0])])


def watched_keys(n_rows: int) -> WatchedKeys:
    """Return `n_rows` rows that are free."""
    return zeros(
        WatchedKeys,
        n_rows,
        table=key_table(n_rows),
        frequent=np.full(n_rows, NEVER, np.int64),
        until=np.full(n_rows, NEVER, np.int64),
        free=np.arange(n_rows - 1, -1, -1, dtype=np.int32),
        n_free=np.array([n_rows]),
    )


@kernel
def take_row(hot: WatchedKeys, key: U64, home: I32, count: F64) -> I64:
    """Give a row to `key`, which has none, and return it; ABSENT if all are taken."""
    if hot.n_free[0] == 0:
        return np.int64(ABSENT)
    hot.n_free[0] -= 1
    row = np.int64(hot.free[hot.n_free[0]])
    slot = find_slot(hot.table, key)
    hot.table.keys[slot] = key
    hot.table.values[slot] = row
    hot.keys[row] = key
    hot.homes[row] = home
    hot.counts[row] = count
    hot.before[row] = -1.0
    return row


@kernel
def drop_row(hot: WatchedKeys, row: I64) -> None:
    """Take the row from its key."""
    remove_slot(hot.table, find_slot(hot.table, hot.keys[row]))
    hot.counts[row] = 0.0
    hot.before[row] = 0.0
    hot.untold[row] = 0.0
    hot.frequent[row] = NEVER
    hot.until[row] = NEVER
    hot.shared[row] = 0.0
    hot.deadline[row] = 0
    hot.free[hot.n_free[0]] = row
    hot.n_free[0] += 1


@kernel
def has_owner(hot: WatchedKeys, row: I64) -> bool:
    """Tell whether the row belongs to a key."""
    slot = find_slot(hot.table, hot.keys[row])
    return bool(hot.table.values[slot] == row)


def owned_rows(hot: WatchedKeys) -> dict[int, int]:
    """Return the row of each key that has one."""
    taken = hot.table.values != ABSENT
    rows = hot.table.values[taken].tolist()
    return dict(zip(hot.table.keys[taken].tolist(), rows, strict=True))
