"""The merges of a source and its part in them, also if others merged while it was away.

On Spark, a source has no part in a micro-batch with fewer files. Until it returns, the others merge
without it. Its last message is in the first of these merges; the newest one is about others. So a
merged state has the times of the last merges, and a source that returns looks up its own.

The time of a merge is the number of records of all sources up to it. A source continues from a
merge, and its next message is in the merge after that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from skewless.arrays import Floats, Ints
from skewless.state import MOST_COUNTED, MOST_WEIGHT, require_that, within

#: Merges that are remembered. A source that was away for more keeps only its scale.
N_MERGES = 32

# Positions in `sums`; all fade by horizon / (horizon + new records) in a merge.
RECENT = 0  # records of all sources
SOURCES = 1  # the same, each times the number of sources in its merge
OWN = 2  # records of this source
CROSS = 3  # over merges that it had a part in: new records of all times those of this source
SQUARE = 4  # the same: new records of this source, squared
N_SUMS = 5


@within(0, MOST_COUNTED, "times")
@within(0, MOST_WEIGHT, "sums")
class MergeHistory(NamedTuple):
    """The last merges, and the part of one source in them; a merged state has no such part."""

    times: Ints  # ascending; 0 for merges that have not been
    sums: Floats

    def check(self, fresh: MergeHistory) -> None:
        """Refuse times out of order."""
        require_that(bool((np.diff(self.times) >= 0).all()), "times must be in order")


def merge_history() -> MergeHistory:
    """Build the history of a source that has never merged."""
    return MergeHistory(np.zeros(N_MERGES, np.int64), np.zeros(N_SUMS))


def add_merge(
    merged: MergeHistory, histories: Sequence[MergeHistory], n_new: int, horizon: float
) -> None:
    """Fill `merged`, a fresh history, with a merge of sources that have `n_new` new records.

    A merge without records leaves no trace.
    """
    latest = max(histories, key=lambda history: int(history.times[-1]))
    merged.times[:] = latest.times
    if n_new:
        merged.times[:-1], merged.times[-1] = latest.times[1:], latest.times[-1] + n_new
    common = [RECENT, SOURCES]
    merged.sums[common] = horizon / (horizon + n_new) * latest.sums[common]
    merged.sums[common] += n_new, n_new * len(histories)


def follow(own: MergeHistory, merged: MergeHistory, n_own: int, horizon: float) -> None:
    """Let a source, whose last message had `n_own` records, continue from the merged state.

    >>> away, first, second = merge_history(), merge_history(), merge_history()
    >>> add_merge(first, [away, merge_history()], n_new=160, horizon=100)
    >>> add_merge(second, [first], n_new=5, horizon=100)
    >>> follow(away, second, n_own=20, horizon=100)
    >>> scale_of(away)
    8.0
    """
    sums, begin = own.sums, int(own.times[-1])
    sums[[RECENT, SOURCES]] = merged.sums[[RECENT, SOURCES]]
    known = merged.times[np.searchsorted(merged.times, begin, "right") - 1 :]
    if merged.times[0] > begin:  # the merge with its message is forgotten
        sums[OWN], known = 0.0, known[:0]
    for n_new in np.diff(known).tolist():
        fading = horizon / (horizon + n_new)
        sums[OWN] = fading * sums[OWN] + n_own
        if n_own:
            sums[CROSS] = fading * sums[CROSS] + float(n_new) * n_own
            sums[SQUARE] = fading * sums[SQUARE] + float(n_own) ** 2
        n_own = 0  # the message is in the first of these merges
    own.times[:] = merged.times


def scale_of(history: MergeHistory) -> float:
    """Divide the records of all sources by those of this one, where it has a part.

    It is the slope of a line through 0 that fits best. The mean of the ratios would be too high
    where the part of a source varies, and batches of a few records would count like large ones. A
    source that is new is expected to have as large a part as the others.
    """
    sums = history.sums
    over, under = (CROSS, SQUARE) if sums[SQUARE] > 0 else (SOURCES, RECENT)
    return max(1.0, float(sums[over] / sums[under])) if sums[under] > 0 else 1.0
