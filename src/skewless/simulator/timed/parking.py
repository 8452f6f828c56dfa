"""Records that wait at their sources for the state of their keys, or to be sent once more."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays import F64, I32, I64, U64, Ints, Rows
from skewless.plumbing.compiling import kernel

PARKED = np.dtype(
    [
        ("until", "f8"),  # when it may leave
        ("worker", "i4"),
        ("source", "i4"),
        ("cost", "f8"),
        ("window", "i8"),
        ("born", "f8"),  # when it would have left
        ("key", "u8"),
    ]
)


class Parked(NamedTuple):
    """A heap by the times at which the records may leave; the last row is for exchanges."""

    rows: Rows
    size: Ints  # [1]


def nothing_parked() -> Parked:
    """Return no records."""
    return Parked(rows=np.zeros(1, PARKED), size=np.zeros(1, np.int64))


def with_room(before: Parked, n_more: int) -> Parked:
    """Return the parked records, with room for this many more."""
    size = int(before.size[0])
    if size + n_more < before.rows.size:
        return before
    return before._replace(rows=longer(before.rows[:size], n_more + 1))


def longer(rows: Rows, n_more: int) -> Rows:
    """Return the rows and this many empty ones."""
    return np.concatenate([rows, np.zeros(n_more, rows.dtype)])


@kernel
def _swap(rows: Rows, i: I64, j: I64) -> None:
    """Exchange two records of the heap."""
    spare = rows.size - 1
    rows[spare] = rows[i]
    rows[i] = rows[j]
    rows[j] = rows[spare]


@kernel
def park(
    parked: Parked,
    until: F64,
    worker: I32,
    cost: F64,
    window: I64,
    born: F64,
    key: U64,
    source: I32,
) -> None:
    """Put a record aside until a time."""
    rows, i = parked.rows, parked.size[0]
    row = rows[i]
    row["until"] = until
    row["worker"] = worker
    row["cost"] = cost
    row["window"] = window
    row["born"] = born
    row["key"] = key
    row["source"] = source
    parked.size[0] = i + 1
    while i > 0 and rows[(i - 1) >> 1]["until"] > rows[i]["until"]:
        _swap(rows, i, (i - 1) >> 1)
        i = (i - 1) >> 1


@kernel
def drop_first(parked: Parked) -> None:
    """Take the record that may leave first out of the heap."""
    rows, n = parked.rows, parked.size[0] - 1
    rows[0] = rows[n]
    parked.size[0] = n
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            return
        if child + 1 < n and rows[child + 1]["until"] < rows[child]["until"]:
            child += 1
        if rows[child]["until"] >= rows[i]["until"]:
            return
        _swap(rows, i, child)
        i = child
