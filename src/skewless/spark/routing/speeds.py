"""How long records take the workers, from their reports: for strategies that compare waits.

On Spark a worker is a partition, and a partition runs on any executor. So a time says something
about the next batch only if the work of the partition causes it, not the machine. That is why times
are used only if the user asks for it.

A task takes a + b · records seconds. A plan holds the seconds and records of the last batches of
each worker. Two batches of a worker that differ in records give a; the median over all such pairs
is what any task costs. b is the median over the batches of a worker, so a single pause changes
nothing. Small differences are ignored, and times are rounded. A plan then changes when a worker has
changed, not with every batch.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np

from skewless.arrays import Floats
from skewless.spark.ledger.entry_checks import require_worker_report, row_of, usable
from skewless.spark.ledger.ledger import Entry
from skewless.state import MOST_COUNTED, require_within
from skewless.strategy import AnyStrategy

_LOGGER = logging.getLogger("skewless")
#: Batches with records of each worker that a plan remembers.
_BATCHES = 5
#: A worker counts after this many of them: of fewer, a pause could be the median.
_LEAST_BATCHES = 3
#: A worker counts when it was busy for at least this many seconds in the remembered batches.
_LEAST_SECONDS = 0.05
_LEAST_TIME = 2.0**-30  # seconds per record
#: Two batches tell what a task costs if their records differ by this factor.
_APART = 1.2
#: Relative times within this many doublings are the same.
_SAME = 0.4
#: Steps per doubling to which relative times are rounded, and the most doublings.
_STEPS, _MOST_DOUBLINGS = 4.0, 4.0

_SECONDS, _RECORDS, _FIXED = "last_seconds", "last_records", "last_fixed"


def uses_speeds(strategy: AnyStrategy) -> bool:
    """Return whether a strategy, with its parameters, can use measured times per record."""
    return bool(getattr(strategy, "wants_speeds", False))


def log_unused(name: str) -> None:
    """Log that times are not used, and when to use them."""
    _LOGGER.warning(
        "strategy %r does not use the times that workers measure, because Spark runs a partition "
        "on any executor. If all executors are equally fast, and records of some keys cost more "
        "than others, set spark.skewless.measuredSpeeds to true",
        name,
    )


def last_batches(plan: Entry, reports: Mapping[int, Entry], n_workers: int) -> dict[str, Floats]:
    """Return the last batches of each worker, the newest first, and a, for the next plan."""
    seconds, records = (
        _remembered(plan, name, n_workers * _BATCHES).reshape(n_workers, _BATCHES)
        for name in (_SECONDS, _RECORDS)
    )
    for worker, report in reports.items():
        require_worker_report(report)
        if worker < n_workers and report.about["records"] > 0:
            for rows, name in ((seconds, "seconds"), (records, "records")):
                rows[worker] = [report.about[name], *rows[worker, :-1]]
    fixed = _fixed_seconds(seconds, records, float(_remembered(plan, _FIXED, 1)[0]))
    return {_SECONDS: seconds.ravel(), _RECORDS: records.ravel(), _FIXED: np.array([fixed])}


def seconds_per_record(plan: Mapping[str, Floats]) -> Floats | None:
    """Compute the seconds per record of each worker; None while they are not known.

    The time is that of a task with as many records as a task has on average. So it does not depend
    on how many a worker was sent, and where a task costs much more than its records, workers are
    nearly equal.

    >>> seconds = np.repeat([1.0, 1.1, 2.1, 0.0], 5)
    >>> batches = {"last_seconds": seconds, "last_records": np.full(20, 1000.0)}
    >>> times = seconds_per_record({**batches, "last_fixed": np.zeros(1)})
    >>> (times / times.min()).tolist()
    [1.0, 1.0, 2.0, 1.0]
    """
    seconds, records = (plan[name].reshape(-1, _BATCHES) for name in (_SECONDS, _RECORDS))
    fixed = plan[_FIXED][0]
    there = records > 0
    known = (there.sum(axis=1) >= _LEAST_BATCHES) & (seconds.sum(axis=1) >= _LEAST_SECONDS)
    if not known.any() or 2 * np.count_nonzero(known) < np.count_nonzero(there.any(axis=1)):
        return None
    rates = np.full(records.shape, np.nan)
    np.divide(np.maximum(seconds - fixed, 0.0), records, out=rates, where=there)
    whole = fixed / records[there].mean() + np.nanmedian(rates[known], axis=1)
    times = np.log2(np.maximum(whole, _LEAST_TIME))
    typical = np.median(times)
    doublings = np.zeros(known.size)
    doublings[known] = np.where(np.abs(times - typical) < _SAME, 0.0, times - typical)
    doublings = np.rint(_STEPS * doublings) / _STEPS
    rounded = np.clip(doublings, -_MOST_DOUBLINGS, _MOST_DOUBLINGS) + np.rint(typical)
    found: Floats = 2.0**rounded
    return found


def _fixed_seconds(seconds: Floats, records: Floats, before: float) -> float:
    """Return a; `before` while no worker has batches that differ enough."""
    one, other = np.triu_indices(_BATCHES, 1)
    few = np.minimum(records[:, one], records[:, other])
    apart = (few > 0) & (np.maximum(records[:, one], records[:, other]) >= _APART * few)
    if not apart.any():
        return before
    records_1, records_2 = records[:, one][apart], records[:, other][apart]
    seconds_1, seconds_2 = seconds[:, one][apart], seconds[:, other][apart]
    crossing = (seconds_1 * records_2 - seconds_2 * records_1) / (records_2 - records_1)
    return max(float(np.median(crossing)), 0.0)


def _remembered(plan: Entry, name: str, size: int) -> Floats:
    """Return an array of a plan, cut or filled with zeros to `size`."""
    amounts = np.zeros(size)
    if name in plan.arrays:
        with usable(plan):
            found = row_of(plan, name, np.float64)
            require_within(name, found, 0, MOST_COUNTED)
        amounts[: found.size] = found[:size]
    return amounts
