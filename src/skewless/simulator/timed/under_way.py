"""Records that are parked at their sources until the state of their key comes; what is measured.

A worker serves in order, so the time at which a record will be done is known as soon as it is sent,
and it is counted at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays import F64, I32, I64, Floats, Ints, Keys, Rows
from skewless.plumbing.compiling import kernel
from skewless.state import zeros


class HeldKeys:
    """Says until when records of moving keys wait, as the pause of Mixed's protocol does."""

    def __init__(self) -> None:
        self._keys: Keys = np.empty(0, np.uint64)  # ascending
        self._until: Floats = np.empty(0)

    def hold(self, keys: Keys, until: Floats, now: float) -> None:
        """Let records of these keys wait until the times given; a key may be held already."""
        current = self._until > now
        all_keys = np.concatenate([self._keys[current], keys])
        all_times = np.concatenate([self._until[current], until])
        self._keys, index = np.unique(all_keys, return_inverse=True)
        self._until = np.full(self._keys.size, -np.inf)
        np.maximum.at(self._until, index, all_times)

    def until(self, keys: Keys) -> Floats:
        """Return until when the records of each key wait; 0 where they need not."""
        if not self._keys.size:
            return np.zeros(keys.size)
        at = np.minimum(np.searchsorted(self._keys, keys), self._keys.size - 1)
        times: Floats = np.where(self._keys[at] == keys, self._until[at], 0.0)
        return times


PARKED = np.dtype(
    [
        ("until", "f8"),  # when it may leave
        ("worker", "i4"),
        ("cost", "f8"),
        ("window", "i8"),
        ("born", "f8"),  # when it would have left
    ]
)


class Parked(NamedTuple):
    """A heap by the times at which the records may leave; the last row is for exchanges."""

    rows: Rows
    size: Ints  # [1]


def with_room(before: Parked, n_more: int) -> Parked:
    """Return the parked records with room for this many more."""
    size = int(before.size[0])
    if size + n_more < before.rows.size:
        return before
    more = np.zeros(n_more + 1, before.rows.dtype)
    return before._replace(rows=np.concatenate([before.rows[:size], more]))


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
) -> None:
    """Put a record aside until a time."""
    rows, i = parked.rows, parked.size[0]
    row = rows[i]
    row["until"] = until
    row["worker"] = worker
    row["cost"] = cost
    row["window"] = window
    row["born"] = born
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


#: A latency falls into bucket ⌊8 · log2(seconds / 1 ns)⌋: each is 9 % wide.
BUCKETS_PER_OCTAVE = 8
#: Up to 2^64 nanoseconds, 584 years.
N_BUCKETS = 64 * BUCKETS_PER_OCTAVE
SHORTEST = 1e-9


class Times(NamedTuple):
    """What is measured, by window."""

    done: Ints
    first: Floats  # emission
    last: Floats  # completion
    latency_sum: Floats
    latency_max: Floats
    latencies: Ints  # [window, bucket]
    gate: Floats  # before which no record of the window leaves its source


def no_times(n_windows: int) -> Times:
    """Return the times of windows of which nothing is known yet."""
    latencies = np.zeros((n_windows, N_BUCKETS), np.int64)
    return zeros(Times, n_windows, first=np.full(n_windows, np.inf), latencies=latencies)


@kernel
def _bucket(latency: F64) -> I64:
    if latency <= SHORTEST:
        return 0
    bucket = np.int64(np.log2(latency / SHORTEST) * BUCKETS_PER_OCTAVE)
    return min(bucket, N_BUCKETS - 1)


@kernel
def note(times: Times, window: I64, begin: F64, done: F64, latency: F64) -> None:
    """Count a record that is done."""
    times.done[window] += 1
    times.first[window] = min(times.first[window], begin)
    times.last[window] = max(times.last[window], done)
    times.latency_sum[window] += latency
    times.latency_max[window] = max(times.latency_max[window], latency)
    times.latencies[window, _bucket(latency)] += 1


def latency_quantile(latencies: Ints, share: float) -> float:
    """Return the latency that a share of the records does not exceed, from their buckets.

    It is the middle of its bucket, so it errs by at most 4.5 %, up to latencies of 584 years.
    """
    counts = latencies if latencies.ndim == 1 else latencies.sum(axis=0)
    total = int(counts.sum())
    if not total:
        return 0.0
    bucket = int(np.searchsorted(np.cumsum(counts), share * total))
    lowest: float = SHORTEST * 2.0 ** (bucket / BUCKETS_PER_OCTAVE)
    return lowest * float(2.0 ** (0.5 / BUCKETS_PER_OCTAVE))
