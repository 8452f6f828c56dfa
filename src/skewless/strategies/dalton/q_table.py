"""A Q-table: the learned value of each worker for each of a few keys, and the best one in O(1).

A row belongs to a key. Its places are the workers in order, beginning with the key's own hash
worker, so that place p is worker (home + p) mod n: ties go to the lowest place.

The best place of a row is the winner of a tournament over its values, so that a changed value
costs O(log n) instead of a scan over all workers. Mostly it costs O(1): the value that changes is
the best one, and while it stays above all others of its row, every match ends as before.

A source keeps what it learned since its last message to the others. An answer lacks these rewards,
so the source adds each of them to it once. The next message has these rewards and no others.
Learning is the affine map Q ↦ (1 − γ)·Q + γ·R. Many of them in a row are again one such map,
(1 − γ)^m·Q + b, so m and b per value are all that has to be kept, however many rewards there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import F64, I64, Floats, Ints, SmallInts
from skewless.plumbing.compiling import kernel
from skewless.plumbing.order_free import unordered_mean, unordered_sum
from skewless.state import fixed, require_that, require_within, within

_MOST_VALUE = 1e9  # rewards are a few units at most
_MOST_KEPT = 2**30  # rewards that are told apart: (1 − γ)^m is 0 long before


@fixed("shape", "start")
@within(-np.inf, _MOST_VALUE, "others")
@within(-_MOST_VALUE, _MOST_VALUE, "kept")
@within(0, _MOST_KEPT, "n_kept")
class QTable(NamedTuple):
    """Read the best place of a row by `best`, its values by `row_values`."""

    values: Floats  # row by place, flat; rows are filled up to a power of two with −∞
    winners: SmallInts  # row by node, flat: node 1 is the root, 2i and 2i + 1 the children of i
    others: Floats  # per row: no value but the best is above this
    n_kept: SmallInts  # row by place, flat: rewards since the last message
    kept: Floats  # row by place, flat: what they add up to
    start: Floats  # [value of a worker that has never been tried]
    shape: Ints  # [workers, places of a row]

    def check(self, fresh: QTable) -> None:
        """Refuse values beyond any reward, and winners that did not win."""
        n_workers, n_places = self.shape.tolist()
        values = self.values.reshape(-1, n_places)
        require_within("values", values[:, :n_workers], -_MOST_VALUE, _MOST_VALUE)
        require_within("values", values[:, n_workers:], -np.inf, -np.inf)
        winners = self.winners.reshape(-1, n_places)
        level = np.broadcast_to(np.arange(n_places), values.shape)
        while level.shape[1] > 1:
            left, right = level[:, ::2], level[:, 1::2]
            won = np.take_along_axis(values, left, 1) >= np.take_along_axis(values, right, 1)
            level = np.where(won, left, right)
            found = winners[:, level.shape[1] : 2 * level.shape[1]]
            require_that(np.array_equal(found, level), "winners must be those of the values")


def q_table(n_rows: int, n_workers: int, start: float) -> QTable:
    """Return a table of `n_rows` rows in which every value is `start`.

    >>> table = q_table(1, 3, start=-2.0)
    >>> learn(table, 0, 1, 0.5, 0.1)
    >>> row_values(table, 0).tolist(), int(best(table, 0))
    ([-2.0, -1.75, -2.0], 1)
    """
    n_places = max(2, 1 << (n_workers - 1).bit_length())
    values = np.full((n_rows, n_places), -np.inf)
    values[:, :n_workers] = start
    # Where all are equal, the lowest place below a node wins.
    winners = np.zeros((n_rows, n_places), np.int32)
    level = np.arange(n_places)
    while level.size > 1:
        level = level[::2]
        winners[:, level.size : 2 * level.size] = level
    return QTable(
        values=values.ravel(),
        winners=winners.ravel(),
        others=np.full(n_rows, start),
        n_kept=np.zeros(n_rows * n_places, np.int32),
        kept=np.zeros(n_rows * n_places),
        start=np.array([start]),
        shape=np.array([n_workers, n_places]),
    )


@kernel
def best(table: QTable, row: I64) -> I64:
    """Return the place with the highest value, the lowest one on a tie."""
    return np.int64(table.winners[row * table.shape[1] + 1])


@kernel
def learn(table: QTable, row: I64, place: I64, reward: F64, rate: F64) -> None:
    """Move a value towards `reward` (Dalton, eq. 5)."""
    value = table.values[row * table.shape[1] + place]
    set_value(table, row, place, value + rate * (reward - value))


@kernel
def set_value(table: QTable, row: I64, place: I64, value: F64) -> None:
    """Set a value, and update the best place of its row."""
    n_places = table.shape[1]
    first = row * n_places
    table.values[first + place] = value
    if place == best(table, row) and value > table.others[row]:
        return
    # The place, and then the winner so far, plays the winner beside its path to the root.
    winner, rival = place, place ^ 1
    node = n_places + place
    while node > 1:
        winner = _better(table, first, winner, rival)
        node >>= 1
        table.winners[first + node] = winner
        rival = np.int64(table.winners[first + (node ^ 1)])
    # The second best has lost to the best, so it is beside the path of the best.
    second, rival = -np.inf, winner ^ 1
    node = n_places + winner
    while node > 1:
        second = max(second, table.values[first + rival])
        node >>= 1
        rival = np.int64(table.winners[first + (node ^ 1)])
    table.others[row] = second


@kernel
def _better(table: QTable, first: I64, one: I64, other: I64) -> I64:
    """Return the place with the higher value, the lower place on a tie."""
    value, rival = table.values[first + one], table.values[first + other]
    return one if value > rival or (value == rival and one < other) else other


@kernel
def keep(table: QTable, row: I64, place: I64, reward: F64, rate: F64) -> None:
    """Keep a reward for the next message, without changing the value (Dalton, Alg. 2, l. 10)."""
    at = row * table.shape[1] + place
    table.kept[at] += rate * (reward - table.kept[at])
    table.n_kept[at] += np.int32(table.n_kept[at] < _MOST_KEPT)


@kernel
def clear_row(table: QTable, row: I64) -> None:
    """Reset a row: no worker has been tried, nothing is kept."""
    n_places = table.shape[1]
    first = row * n_places
    for place in range(table.shape[0]):
        table.values[first + place] = table.start[0]
        table.kept[first + place] = 0.0
        table.n_kept[first + place] = 0
    for node in range(n_places - 1, 0, -1):  # where all are equal, the lowest place wins
        left = 2 * node
        lowest = table.winners[first + left] if left < n_places else np.int32(left - n_places)
        table.winners[first + node] = lowest
    table.others[row] = table.start[0]


def row_values(table: QTable, row: int) -> Floats:
    """Return a view of the values of a row, by place."""
    return _part(table, table.values, row)


def set_values(table: QTable, row: int, values: Floats) -> None:
    """Set all values of a row; the rewards kept for it stay."""
    for place, value in enumerate(values.tolist()):
        set_value(table, row, place, value)


def with_kept(table: QTable, row: int, values: Floats, rate: float) -> Floats:
    """Return `values` after the rewards that are kept in `row`."""
    n_kept, kept = _part(table, table.n_kept, row), _part(table, table.kept, row)
    after: Floats = (1.0 - rate) ** n_kept * values + kept
    return after


def forget_kept(table: QTable) -> None:
    """Clear the kept rewards of all rows."""
    table.n_kept[:] = 0
    table.kept[:] = 0.0


def learned_by_all(rows: Sequence[tuple[QTable, int]], rate: float) -> Floats:
    """Return the values of a row after the rewards of all sources, which began with equal values.

    M rewards in all leave (1 − γ)^M of the first value, as if one source had had them. The rest is
    the mean of what the sources were rewarded with, by the number of their rewards. The result does
    not depend on the order of `rows`, and without rewards it is the first value.

    >>> one, other = q_table(1, 2, start=-2.0), q_table(1, 2, start=-2.0)
    >>> for table, place in ((one, 0), (other, 0), (other, 1)):
    ...     learn(table, 0, place, 0.0, 0.1)
    ...     keep(table, 0, place, 0.0, 0.1)
    >>> learned_by_all([(one, 0), (other, 0)], 0.1).round(2).tolist()  # −2 · 0.9², −2 · 0.9
    [-1.62, -1.8]
    """
    values = np.array([row_values(table, row) for table, row in rows])
    n_kept = np.array([_part(table, table.n_kept, row) for table, row in rows], np.float64)
    kept = np.array([_part(table, table.kept, row) for table, row in rows])
    n_rewards = n_kept.sum(axis=0)
    # The source with the fewest rewards is nearest to the first value; ties differ by rounding.
    fewest = n_kept.min(axis=0)
    remainders = np.where(n_kept == fewest, values - kept, -np.inf).max(axis=0)
    weights = 1.0 - (1.0 - rate) ** n_kept
    rewards = n_kept * kept / np.where(n_kept > 0, weights, 1.0)
    mean = unordered_sum(rewards) / np.maximum(n_rewards, 1.0)
    after: Floats = (1.0 - rate) ** (n_rewards - fewest) * remainders
    after += (1.0 - (1.0 - rate) ** n_rewards) * mean
    return after


def averaged(rows: Sequence[tuple[QTable, int]], *, weighted: bool) -> Floats:
    """Return the mean of the values of all sources; weighted: by their rewards since a message.

    >>> one, other = q_table(1, 2, start=-2.0), q_table(1, 2, start=-2.0)
    >>> learn(one, 0, 0, 0.0, 0.5)
    >>> keep(one, 0, 0, 0.0, 0.5)
    >>> averaged([(one, 0), (other, 0)], weighted=False).tolist()
    [-1.5, -2.0]
    >>> averaged([(one, 0), (other, 0)], weighted=True).tolist()
    [-1.0, -2.0]
    """
    values = [row_values(table, row) for table, row in rows]
    n_rewards = np.array([_part(table, table.n_kept, row).sum() for table, row in rows], np.float64)
    if not weighted or not n_rewards.any():
        return unordered_mean(values)
    mean: Floats = unordered_sum(n_rewards[:, None] * np.array(values)) / n_rewards.sum()
    return mean


def _part(table: QTable, flat: NDArray[Any], row: int) -> NDArray[Any]:
    """Return the part of a flat array that belongs to the workers of a row."""
    first = row * int(table.shape[1])
    return flat[first : first + int(table.shape[0])]
