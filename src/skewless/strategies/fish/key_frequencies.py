"""Which keys have been hot recently: a SpaceSaving summary whose counts fade after every epoch.

An epoch is a fixed number of records. After it, all counts are multiplied by α, so that what
was frequent long ago weighs little. A key is hot when its count exceeds θ times the weight of a
long stream, epoch / (1 − α). The faded total would be the wrong measure: right after a fading it
is small, and a single record would make any key hot.

References
----------
FISH, Alg. 1 (section 4.1.1). Merging: P. Agarwal et al.: Mergeable summaries, PODS 2012, section 3;
M. Cafaro et al.: A parallel space saving algorithm for frequent items, Information Sciences 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import F64, I64, Floats, Ints, Keys, Rows
from skewless.kernels.key_table import put_all
from skewless.kernels.space_saving import (
    SpaceSaving,
    decay,
    entries,
    list_shares,
    space_saving,
    total,
)
from skewless.plumbing.compiling import kernel
from skewless.plumbing.order_free import unordered_sum
from skewless.state import MOST_COUNTED, MOST_WEIGHT, fixed, require_within, within, zeros

# `weight`: records that a frequency is relative to, at least.
SETTINGS = np.dtype([("theta", "f8"), ("alpha", "f8"), ("weight", "f8")])


@fixed("epoch", "settings")
@within(0, MOST_COUNTED, "n_since_merge")
@within(0, MOST_WEIGHT, "top")
class KeyFrequencies(NamedTuple):
    """Counts are `summary.counts`, in units of `summary.unit`; so is `top`."""

    summary: SpaceSaving
    top: Floats  # [the largest count]
    n_in_epoch: Ints  # [records of the current epoch]
    n_since_merge: Ints  # [records since this source last took over a merged state]
    epoch: Ints  # [records of an epoch]
    settings: Rows  # [1]

    def check(self, fresh: KeyFrequencies) -> None:
        """Refuse more records than an epoch has."""
        require_within("n_in_epoch", self.n_in_epoch, 0, int(self.epoch[0]))


def key_frequencies(capacity: int, epoch: int, alpha: float, theta: float) -> KeyFrequencies:
    """Return a summary of up to `capacity` keys that has seen nothing.

    α = 1 fades nothing, and α = 0 everything.
    """
    weight = epoch / (1.0 - alpha) if alpha < 1 else epoch
    return zeros(
        KeyFrequencies,
        1,
        summary=space_saving(capacity),
        epoch=np.array([epoch]),
        settings=np.array([(theta, alpha, weight)], SETTINGS),
    )


@kernel
def hot_above(frequencies: KeyFrequencies) -> F64:
    """Return the count above which a key is hot."""
    weight = frequencies.settings[0]["weight"] * frequencies.summary.unit[0]
    return frequencies.settings[0]["theta"] * max(frequencies.summary.total[0], weight)


@kernel
def list_hot(frequencies: KeyFrequencies, shares: Floats) -> I64:
    """Fill `shares` with the hot keys' shares of all records, in any order; return how many.

    It also finds `top` again.
    """
    summary = frequencies.summary
    top = 0.0
    for entry in range(summary.size[0]):
        top = max(top, summary.counts[entry])
    frequencies.top[0] = top
    return list_shares(summary, hot_above(frequencies), summary.total[0], shares)


@kernel
def fade(frequencies: KeyFrequencies) -> None:
    """Begin the next epoch (Alg. 1, l. 5–7 and 23–26)."""
    alpha = frequencies.settings[0]["alpha"]
    before = frequencies.summary.unit[0]
    decay(frequencies.summary, alpha)
    if alpha == 0.0:
        frequencies.top[0] = 0.0
    elif frequencies.summary.unit[0] < before / alpha:
        # All counts were brought back to today's unit.
        frequencies.top[0] /= before / alpha
    frequencies.n_in_epoch[0] = 0


def hot_keys(frequencies: KeyFrequencies) -> Keys:
    """Return the keys that are hot now, in ascending order."""
    size = int(frequencies.summary.size[0])
    is_hot = frequencies.summary.counts[:size] > hot_above(frequencies)
    keys: Keys = np.sort(frequencies.summary.keys[:size][is_hot])
    return keys


def merged_summary(
    summaries: Sequence[SpaceSaving], capacity: int, weights: Floats | None = None
) -> SpaceSaving:
    """Return the summary of all streams together, in any order of `summaries`.

    With `weights`, not all 0, the sums become means with these weights; equal summaries are then
    merged to the same counts.

    The guarantees stay, with N the weight of all streams. So a full summary must not become part of
    a larger one: the free places would promise that keys not monitored have weight 0. `capacity` is
    at most that of every summary.
    """
    listed = [entries(summary) for summary in summaries]
    keys = np.unique(np.concatenate([part_keys for part_keys, _, _ in listed]))
    counts = np.zeros((len(summaries), keys.size))
    errors = np.zeros((len(summaries), keys.size))
    for row, (part_keys, part_counts, part_errors) in enumerate(listed):
        # A key that a full summary does not hold may have had as much as its smallest entry.
        if part_keys.size == summaries[row].keys.size:
            counts[row] = errors[row] = part_counts[-1]
        columns = np.searchsorted(keys, part_keys)
        counts[row, columns] = part_counts
        errors[row, columns] = part_errors
    totals = np.array([[total(summary)] for summary in summaries])
    count, error = _combined(counts, weights), _combined(errors, weights)
    chosen = np.lexsort((keys, error, -count))[:capacity]

    merged = space_saving(capacity)
    size = chosen.size
    merged.keys[:size] = keys[chosen]
    merged.counts[:size] = count[chosen]
    merged.errors[:size] = error[chosen]
    merged.stamps[:size] = np.arange(size, 0, -1)  # the smaller count counts as the older
    merged.size[0] = merged.clock[0] = size
    merged.total[0] = _combined(totals, weights)[0]
    put_all(merged.table, merged.keys[:size], np.arange(size, dtype=np.int32))
    return merged


def _combined(rows: NDArray[np.float64], weights: Floats | None) -> Floats:
    """Return the sum of the rows, or their mean, the same in any order of them."""
    if weights is None:
        return unordered_sum(rows)
    terms = unordered_sum(rows * weights[:, None]) / unordered_sum(weights)
    agreed: Floats = np.where((rows == rows[0]).all(axis=0), rows[0], terms)
    return agreed


def merged_frequencies(sources: Sequence[KeyFrequencies], fresh: KeyFrequencies) -> KeyFrequencies:
    """Return the mean of what the sources counted, each by its records since the last merge.

    It is a mean because every source continues with a copy: the copy gets one source's records per
    epoch, and a second merge must not count the first one again. A source with few records since
    the last merge has learned little, so it counts little. With equal weights, sources without
    records would dilute what the others have found at every merge.
    """
    weights = np.array([source.n_since_merge[0] for source in sources], np.float64)
    if not weights.any():
        weights[:] = 1.0
    summary = merged_summary([s.summary for s in sources], fresh.summary.keys.size, weights)
    # The position in the epoch is that of the source with the most new records.
    n_in_epoch = max((s.n_since_merge[0], s.n_in_epoch[0]) for s in sources)[1]
    return fresh._replace(summary=summary, n_in_epoch=np.array([n_in_epoch]))
