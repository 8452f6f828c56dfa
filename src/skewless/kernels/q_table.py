"""A Q-table: the learned value of each worker for each of a few keys, and the best one at once.

A row belongs to a key. Its places are the workers in order, beginning with the key's own hash
worker, so that place p is worker (home + p) mod n: ties go to the lowest place.

The best place of a row is the winner of a tournament over its values, so that a changed value
costs O(log n) instead of a scan over all workers.

A source that waits for a common table must not learn into its own, but keeps what it would have
learned. Learning is the affine map Q ↦ (1 − γ)·Q + γ·R. Many of them in a row are again one such
map, (1 − γ)^m·Q + b, so m and b per value are all that has to be kept, however long it waits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless._jit import kernel
from skewless.arrays import F64, I64, Floats, SmallInts


class QTable(NamedTuple):
    """Rows of values, each filled up to a power of two with places that cannot win."""

    values: Floats  # row by place, flat
    winners: SmallInts  # row by node, flat: node 1 is the root, 2i and 2i + 1 the children of i
    n_kept: SmallInts  # row by place: rewards kept while waiting
    kept: Floats  # row by place: what they add up to
    start: Floats  # [value of a worker that has never been tried]
    shape: SmallInts  # [rows, places with padding, workers]


def q_table(n_rows: int, n_workers: int, start: float) -> QTable:
    """Return a table of `n_rows` rows in which every value is `start`.

    >>> table = q_table(1, 3, start=-2.0)
    >>> learn(table, 0, 1, reward=0.5, rate=0.1)
    >>> int(best(table, 0)), float(table.values[1])
    (1, -1.75)
    """
    n_places = 1 << (n_workers - 1).bit_length()
    table = QTable(
        values=np.zeros(n_rows * n_places),
        winners=np.zeros(n_rows * n_places, np.int32),
        n_kept=np.zeros(n_rows * n_places, np.int32),
        kept=np.zeros(n_rows * n_places),
        start=np.array([start]),
        shape=np.array([n_rows, n_places, n_workers], np.int32),
    )
    for row in range(n_rows):
        set_row(table, row, np.full(n_workers, start))
    return table


@kernel
def best(table: QTable, row: I64) -> I64:
    """Return the place with the highest value, the lowest one on a tie."""
    n_places = np.int64(table.shape[1])
    if n_places == 1:
        return np.int64(0)
    return np.int64(table.winners[row * n_places + 1])


@kernel
def learn(table: QTable, row: I64, place: I64, reward: F64, rate: F64) -> None:
    """Move a value towards `reward` (Dalton, eq. 5)."""
    at = row * np.int64(table.shape[1]) + place
    value = table.values[at]
    _change(table, row, place, value + rate * (reward - value))


@kernel
def keep(table: QTable, row: I64, place: I64, reward: F64, rate: F64) -> None:
    """Note what `learn` would have done, and leave the value as it is (Dalton, Alg. 2, l. 10)."""
    at = row * np.int64(table.shape[1]) + place
    table.kept[at] += rate * (reward - table.kept[at])
    table.n_kept[at] += 1


@kernel
def clear_row(table: QTable, row: I64) -> None:
    """Let a row begin again: no worker has been tried, nothing is kept."""
    n_places = np.int64(table.shape[1])
    first = row * n_places
    for place in range(np.int64(table.shape[2])):
        table.values[first + place] = table.start[0]
        table.kept[first + place] = 0.0
        table.n_kept[first + place] = 0
    # All are equal, so the lowest place of each subtree wins.
    for node in range(1, n_places):
        leaf = node
        while leaf < n_places:
            leaf *= 2
        table.winners[first + node] = leaf - n_places


@kernel
def _change(table: QTable, row: I64, place: I64, value: F64) -> None:
    """Set a value and play its matches again, up to the first that changes nothing."""
    n_places = np.int64(table.shape[1])
    first = row * n_places
    table.values[first + place] = value
    node = (n_places + place) >> 1
    if node == 0:
        return
    # The lowest matches are between places themselves, the others between winners.
    left = place & ~np.int64(1)
    winner = left if table.values[first + left] >= table.values[first + left + 1] else left + 1
    while True:
        if winner == table.winners[first + node] and winner != place:
            return
        table.winners[first + node] = winner
        node >>= 1
        if node == 0:
            return
        left = np.int64(table.winners[first + 2 * node])
        right = np.int64(table.winners[first + 2 * node + 1])
        winner = left if table.values[first + left] >= table.values[first + right] else right


def row_values(table: QTable, row: int) -> Floats:
    """Return a view of the values of a row, by place."""
    first = row * int(table.shape[1])
    return table.values[first : first + int(table.shape[2])]


def set_row(table: QTable, row: int, values: Floats) -> None:
    """Set all values of a row and forget what is kept for it."""
    n_places, n_workers = int(table.shape[1]), int(table.shape[2])
    first = row * n_places
    here = slice(first, first + n_places)
    table.values[here] = -np.inf
    table.values[first : first + n_workers] = values
    table.n_kept[here] = 0
    table.kept[here] = 0.0
    winners = np.arange(n_places, dtype=np.int32)
    while winners.size > 1:
        left, right = winners[::2], winners[1::2]
        own = table.values[here]
        winners = np.where(own[left] >= own[right], left, right).astype(np.int32)
        table.winners[first + winners.size : first + 2 * winners.size] = winners


def with_kept(table: QTable, row: int, values: Floats, rate: float) -> Floats:
    """Return what `values` become by the rewards that are kept in `row`."""
    first = row * int(table.shape[1])
    here = slice(first, first + int(table.shape[2]))
    after: Floats = (1.0 - rate) ** table.n_kept[here] * values + table.kept[here]
    return after


def forget_kept(table: QTable) -> None:
    """Let all rows keep nothing."""
    table.n_kept[:] = 0
    table.kept[:] = 0.0
