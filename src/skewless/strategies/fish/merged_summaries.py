"""Several SpaceSaving summaries become one.

References
----------
P. Agarwal et al.: Mergeable summaries, PODS 2012, section 3; M. Cafaro et al.: A parallel space
saving algorithm for frequent items, Information Sciences 2016.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import Floats
from skewless.kernels.key_table import find_slot
from skewless.kernels.space_saving import SpaceSaving, entries, space_saving, total
from skewless.plumbing.order_free import unordered_sum


def merged_summary(
    summaries: Sequence[SpaceSaving], capacity: int, weights: Floats | None = None
) -> SpaceSaving:
    """Return the summary of all streams together, in any order of `summaries`.

    With `weights`, not all 0, the sums become means with these weights; equal summaries are then
    merged to the same counts.

    The guarantees stay, with N the weight of all streams. So a full summary must not become part of
    a larger one: the free places would promise that keys not monitored have weight 0.
    """
    if not summaries:
        raise ValueError("summaries must hold at least one summary, not none")
    smallest = min(summary.keys.size for summary in summaries)
    if not 1 <= capacity <= smallest:
        raise ValueError(
            f"capacity must be at least 1 and at most that of every summary ({smallest}), "
            f"not {capacity!r}"
        )
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
    for entry in range(size):
        slot = find_slot(merged.table, merged.keys[entry])
        merged.table.keys[slot] = merged.keys[entry]
        merged.table.values[slot] = entry
    return merged


def _combined(rows: NDArray[np.float64], weights: Floats | None) -> Floats:
    """Return the sum of the rows, or their mean, the same in any order of them."""
    if weights is None:
        return unordered_sum(rows)
    terms = unordered_sum(rows * weights[:, None]) / unordered_sum(weights)
    agreed: Floats = np.where((rows == rows[0]).all(axis=0), rows[0], terms)
    return agreed
