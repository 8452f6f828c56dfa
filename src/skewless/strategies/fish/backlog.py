"""What workers still have to do, inferred at the source from what it sent: no messages.

A worker's waiting time grows by its time per record with every record sent to it. From time to
time, all of them shrink by the time that has passed. The clock is part of the state, so routing
stays a pure function: every record adds a fixed step, until somebody who has a clock sets it.

References
----------
FISH, Alg. 3 (section 4.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from skewless._jit import kernel
from skewless.arrays import F64, Floats, Ints
from skewless.sound import MOST_COUNTED, require_same, require_that, require_within
from skewless.strategies.fish.waiting import (
    TICKS,
    Waiting,
    pass_time,
    regroup,
    set_seconds,
    waiting,
)

# Positions in `clock`, all in seconds.
ESTIMATED = 0  # t_pri: when waiting times were last estimated
SET = 1  # the time when SINCE was 0
STEP = 2  # what one record adds to the time
TICK = 3  # what one tick of a waiting time is
INTERVAL = 4  # T: how old an estimate may become
LOAD = 5  # not seconds: records arrive at this share of the workers' total speed
# Positions in `records`.
SINCE = 0  # records since the clock was last set
UNTIL = 1  # the value of SINCE at which waiting times are estimated again
_MOST_RECORDS = 2.0**62


class Backlog(NamedTuple):
    """Waiting times, and the time."""

    waiting: Waiting
    clock: Floats
    records: Ints

    def check(self, fresh: Backlog) -> None:
        """Refuse another speed of time, and times that are out of order."""
        clock, other = self.clock, fresh.clock
        require_same("clock", clock[INTERVAL:], other[INTERVAL:])
        # Merging computes them again.
        near = np.allclose(clock[[STEP, TICK]], other[[STEP, TICK]], rtol=1e-6, atol=0)
        require_that(near, "clock must have the steps that the strategy starts with")
        require_within("records", self.records, 0, 2**62)
        require_within("clock", clock[[ESTIMATED, SET]], 0, float(clock[TICK]) * 2**50)
        require_within("clock", clock[[ESTIMATED]], 0, float(clock[SET]))
        require_within("records", self.records[[SINCE]], 0, MOST_COUNTED)


def backlog(seconds_per_record: Floats, interval: float, utilisation: float) -> Backlog:
    """Return workers with nothing to do at time 0; an infinite `interval` stops the time.

    >>> workers = backlog(np.array([1.0, 0.5]), interval=10.0, utilisation=0.5)
    >>> workers.clock[STEP].round(3).item(), workers.records[UNTIL].item()
    (0.667, 16)
    """
    times = Backlog(
        waiting=waiting(seconds_per_record),
        clock=np.array([0.0, 0.0, 0.0, 0.0, interval, utilisation]),
        records=np.zeros(2, np.int64),
    )
    _set_steps(times, seconds_per_record)
    set_clock(times, 0.0)
    return times


def _set_steps(times: Backlog, seconds_per_record: Floats) -> None:
    times.clock[STEP] = 1.0 / (times.clock[LOAD] * (1.0 / seconds_per_record).sum())
    times.clock[TICK] = seconds_per_record.min() / TICKS


@kernel
def now(times: Backlog) -> F64:
    """Return the time in seconds."""
    return times.clock[SET] + times.records[SINCE] * times.clock[STEP]


@kernel
def set_clock(times: Backlog, seconds: F64) -> None:
    """Say what time it is; estimates that are older than T by then are due."""
    times.clock[SET] = seconds
    times.records[SINCE] = 0
    left = times.clock[INTERVAL] - (seconds - times.clock[ESTIMATED])
    records = np.floor(left / times.clock[STEP]) + 1.0
    times.records[UNTIL] = np.int64(max(0.0, min(records, _MOST_RECORDS)))


@kernel
def estimate(times: Backlog) -> None:
    """Let every worker have worked since the last estimate (Alg. 3, l. 4–10)."""
    seconds = now(times)
    pass_time(times.waiting, np.floor((seconds - times.clock[ESTIMATED]) / times.clock[TICK]))
    times.clock[ESTIMATED] = seconds
    set_clock(times, seconds)


def observe(times: Backlog, seconds_per_record: Floats | None, moment: float) -> None:
    """Set the clock, and the workers' times per record if they were sampled."""
    if seconds_per_record is not None:
        set_seconds(times.waiting, seconds_per_record, float(times.clock[TICK]))
        _set_steps(times, seconds_per_record)
    set_clock(times, moment)


def seconds_per_record(times: Backlog) -> Floats:
    """Return the time that a record takes each worker."""
    seconds: Floats = times.waiting.costs * times.clock[TICK]
    return seconds


def set_waits(times: Backlog, waits: Floats, moment: float) -> None:
    """Set the waiting times in seconds, as of `moment`."""
    times.waiting.ticks[:] = np.rint(waits / times.clock[TICK])
    regroup(times.waiting)
    times.clock[ESTIMATED] = moment
    set_clock(times, moment)


def settle(times: Backlog) -> tuple[Floats, float]:
    """Estimate now unless time stands still; return the waiting times in seconds, and the time."""
    if times.clock[INTERVAL] < np.inf:
        estimate(times)
    waits: Floats = times.waiting.ticks * times.clock[TICK]
    return waits, float(now(times))


def mean_backlog(sources: Sequence[Backlog]) -> Backlog:
    """Return what the average source believes, at the latest of their times; settles them all."""
    waits, moments = zip(*map(settle, sources), strict=True)
    first = sources[0].clock
    seconds = _mean([seconds_per_record(source) for source in sources])
    mean = backlog(seconds, float(first[INTERVAL]), float(first[LOAD]))
    set_waits(mean, _mean(list(waits)), max(moments))
    return mean


def _mean(parts: list[Floats]) -> Floats:
    """Return the mean; sorted, because a float sum depends on its order."""
    mean: Floats = np.sort(parts, axis=0).sum(axis=0) / len(parts)
    return mean
