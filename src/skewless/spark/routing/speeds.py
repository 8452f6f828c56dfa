"""How long records take the workers, from their reports: for strategies that compare waits.

A plan holds the seconds and records of each worker; older batches count less. Measured times are
noisy. So a worker counts only after it was busy for a while, small differences are ignored, and
times are rounded. A plan then changes when a worker has changed, not with every batch.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from skewless.arrays import Floats
from skewless.sound import MOST_COUNTED, Unsound, require_that, require_within
from skewless.spark.ledger.entry_checks import corrupt, require_worker_report
from skewless.spark.ledger.ledger import Entry

#: The weight of a batch relative to the one after it.
_REMEMBERED = 0.5
#: One batch counts as at most this many times slower than the batches before it.
_MOST_SLOWER = 2.0
#: A worker counts when it was busy for at least this many seconds in the remembered batches.
_LEAST_SECONDS = 0.05
#: Relative times within this many doublings are the same.
_SAME = 0.4
#: Steps per doubling to which relative times are rounded, and the most doublings.
_STEPS, _MOST_DOUBLINGS = 4.0, 4.0

_SECONDS, _RECORDS = "busy_seconds", "busy_records"


def busy(plan: Entry, reports: Mapping[int, Entry], n_workers: int) -> dict[str, Floats]:
    """Return the seconds and records of each worker for the next plan."""
    seconds, records = (_remembered(plan, name, n_workers) for name in (_SECONDS, _RECORDS))
    for worker, report in reports.items():
        require_worker_report(report)
        if worker < n_workers:
            took, n_records = float(report.about["seconds"]), float(report.about["records"])
            if seconds[worker] > 0.0 and records[worker] > 0.0:
                # A single pause must not affect many batches.
                took = min(took, _MOST_SLOWER * n_records * seconds[worker] / records[worker])
            seconds[worker] += took
            records[worker] += n_records
    return {_SECONDS: seconds, _RECORDS: records}


def seconds_per_record(plan: Mapping[str, Floats]) -> Floats | None:
    """Return how long a record takes each worker, or None while that is not known.

    >>> seconds = np.array([1.0, 1.1, 2.1, 0.0])
    >>> times = seconds_per_record({"busy_seconds": seconds, "busy_records": np.full(4, 1000.0)})
    >>> (times / times.min()).tolist()
    [1.0, 1.0, 2.0, 1.0]
    """
    seconds, records = plan[_SECONDS], plan[_RECORDS]
    known = (seconds >= _LEAST_SECONDS) & (records > 0)
    if 2 * np.count_nonzero(known) < known.size:
        return None
    times = np.log2(seconds[known] / records[known])
    typical = np.median(times)
    doublings = np.zeros(known.size)
    doublings[known] = np.where(np.abs(times - typical) < _SAME, 0.0, times - typical)
    doublings = np.rint(_STEPS * doublings) / _STEPS
    rounded = np.clip(doublings, -_MOST_DOUBLINGS, _MOST_DOUBLINGS) + np.rint(typical)
    found: Floats = 2.0**rounded
    return found


def _remembered(plan: Entry, name: str, n_workers: int) -> Floats:
    amounts = np.zeros(n_workers)
    if name not in plan.arrays:
        return amounts
    found = plan.arrays[name]
    try:
        require_that(found.dtype == np.float64 and found.ndim == 1, f"{name} must be a row of f8")
        require_within(name, found, 0, MOST_COUNTED)
    except Unsound as error:
        raise corrupt(plan, error) from None
    n_same = min(n_workers, found.size)
    amounts[:n_same] = _REMEMBERED * found[:n_same]
    return amounts
