"""The backlog of the workers, inferred at the source from what it sent, without messages.

A worker's waiting time grows by its time per record with every record sent to it. Every T seconds,
and at no other time, all of them shrink by the time that has passed. The clock is part of the
state, so routing stays a pure function: every record adds a fixed step.

The backlog is a number of records, C_w. A new time per record changes how long they take.

References
----------
FISH, Alg. 3 (section 4.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from skewless.arrays import F64, Floats, Rows
from skewless.plumbing.compiling import kernel
from skewless.plumbing.order_free import unordered_mean
from skewless.state import MOST_COUNTED, copy_state, require_same, require_that, require_within
from skewless.strategies.fish.worker_selection import (
    TICKS,
    WaitingTimes,
    costs_of,
    pass_time,
    queued,
    set_queued,
    set_seconds,
    waiting_times,
)

#: What time it is; all but `load`, `since` and `until` are seconds.
CLOCK = np.dtype(
    [
        ("estimated", "f8"),  # t_pri: when waiting times were last estimated
        ("set", "f8"),  # the time when `since` was 0
        ("step", "f8"),  # what one record adds to the time
        ("tick", "f8"),  # what one tick of a waiting time is
        ("interval", "f8"),  # T: how old an estimate may become
        ("load", "f8"),  # records arrive at this share of the workers' total speed
        ("since", "i8"),  # records since the clock was last set
        ("until", "i8"),  # the value of `since` at which waiting times are estimated again
    ]
)

_MOST_RECORDS = 2.0**62
_MOST_SECONDS = 2.0**40  # per record; also the most records per second


class WorkerEstimates(NamedTuple):
    """What a source knows of the workers: waiting times, times per record, and the time."""

    waiting: WaitingTimes
    seconds: Floats  # P_w, per worker: seconds per record; ∞ if it has left
    capacities: Floats  # per worker: its declared speed; 0 if it has left
    clock: Rows  # [1]

    def check(self, fresh: WorkerEstimates) -> None:
        """Refuse a clock that does not follow from the workers' speeds, and times out of order."""
        clock = self.clock
        same = ["interval", "load"]
        require_same("clock", clock[same], fresh.clock[same])
        stays = self.capacities > 0
        require_that(bool(stays.any()), "capacities must be above 0 for some worker")
        require_within("capacities", self.capacities, 0, _MOST_SECONDS)
        require_within("seconds", self.seconds[stays], 1 / _MOST_SECONDS, _MOST_SECONDS)
        require_that(bool(np.isinf(self.seconds[~stays]).all()), "seconds must follow capacities")
        steps = _steps(self.seconds, float(clock["load"][0]))
        require_that(clock[["step", "tick"]][0].item() == steps, "clock must follow from seconds")
        require_same("waiting.costs", self.waiting.costs, costs_of(self.seconds))
        require_within("clock", clock[["since", "until"]], 0, 2**62)
        # Only what has passed is counted in ticks.
        require_within("clock", clock[["estimated", "set"]], 0, 2.0**40)
        passed = clock["set"] - clock["estimated"]
        require_within("clock", passed, 0, float(clock["tick"][0]) * 2**50)
        require_within("clock.since", clock["since"], 0, MOST_COUNTED)


def worker_estimates(
    seconds_per_record: Floats,
    capacities: Floats,
    interval: float,
    utilisation: float,
    turn: int = 0,
) -> WorkerEstimates:
    """Return workers with nothing to do at time 0; an infinite `interval` stops the clock.

    >>> workers = worker_estimates(np.array([1.0, 0.5]), np.ones(2), interval=10.0, utilisation=0.5)
    >>> workers.clock["step"][0].round(3).item(), workers.clock["until"][0].item()
    (0.667, 16)
    """
    times = WorkerEstimates(
        waiting=waiting_times(seconds_per_record, turn),
        seconds=seconds_per_record.copy(),
        capacities=capacities.copy(),
        clock=np.zeros(1, CLOCK),
    )
    times.clock[0]["interval"] = interval
    times.clock[0]["load"] = utilisation
    times.clock["step"], times.clock["tick"] = _steps(seconds_per_record, utilisation)
    set_clock(times, 0.0)
    return times


def _steps(seconds_per_record: Floats, utilisation: float) -> tuple[float, float]:
    """Return the seconds that a record adds to the time, and the seconds of a tick."""
    step = 1.0 / (utilisation * (1.0 / seconds_per_record).sum())
    return float(step), float(seconds_per_record.min() / TICKS)


@kernel
def now(times: WorkerEstimates) -> F64:
    """Return the time in seconds."""
    clock = times.clock[0]
    return clock["set"] + clock["since"] * clock["step"]


@kernel
def set_clock(times: WorkerEstimates, seconds: F64) -> None:
    """Set the time; a new estimate is due when the last one is older than T."""
    clock = times.clock[0]
    clock["set"] = seconds
    clock["since"] = 0
    left = clock["interval"] - (seconds - clock["estimated"])
    records = np.floor(left / clock["step"]) + 1.0
    clock["until"] = np.int64(max(0.0, min(records, _MOST_RECORDS)))


@kernel
def estimate(times: WorkerEstimates) -> None:
    """Subtract the time since the last estimate from all waiting times (Alg. 3, l. 4–10)."""
    clock, seconds = times.clock[0], now(times)
    pass_time(times.waiting, np.floor((seconds - clock["estimated"]) / clock["tick"]))
    clock["estimated"] = seconds
    set_clock(times, seconds)


def observe(times: WorkerEstimates, seconds_per_record: Floats) -> None:
    """Set the workers' times per record; what they have done is estimated by the old ones first."""
    moment = float(now(times))
    set_clock(times, moment)
    seconds = np.where(times.capacities > 0, seconds_per_record, np.inf)
    if not np.array_equal(seconds, times.seconds):
        estimate(times)
        set_seconds(times.waiting, seconds)
        times.seconds[:] = seconds
        times.clock["step"], times.clock["tick"] = _steps(seconds, float(times.clock[0]["load"]))
        set_clock(times, moment)


def rescaled(times: WorkerEstimates, capacities: Floats, joins_with: float) -> WorkerEstimates:
    """Return the estimates for workers of these capacities; a worker of capacity 0 leaves.

    What the workers have done until now is estimated first. Otherwise only a worker that joins
    would seem to have nothing to do. A worker that stays keeps its waiting records, and its time
    per record unless its capacity changes. A worker that joins is as fast, for its capacity, as the
    others on average, and `joins_with` records wait there.
    """
    times = copy_state(times)
    if times.clock[0]["interval"] < np.inf:
        estimate(times)
    n_workers, n_same = capacities.size, min(capacities.size, times.seconds.size)
    kept = np.flatnonzero((times.capacities[:n_same] > 0) & (capacities[:n_same] > 0))
    present = times.capacities > 0
    # Seconds per record of a worker of capacity 1; a worker that joins has the mean speed.
    known = times.seconds[present] * times.capacities[present]
    average = known[0] if (known == known[0]).all() else 1 / (1 / known).mean()
    units = np.full(n_workers, average)
    units[kept] = times.seconds[kept] * times.capacities[kept]
    seconds = np.full(n_workers, np.inf)
    np.divide(units, capacities, out=seconds, where=capacities > 0)
    unchanged = kept[times.capacities[kept] == capacities[kept]]
    seconds[unchanged] = times.seconds[unchanged]  # to the last bit
    turn = int(times.waiting.turn[0]) % n_workers
    interval, load = float(times.clock[0]["interval"]), float(times.clock[0]["load"])
    other = worker_estimates(seconds, capacities, interval, load, turn)
    waits = np.full(n_workers, joins_with)
    waits[kept] = queued(times.waiting)[kept]
    set_queued(other.waiting, np.where(capacities > 0, waits, 0.0))
    other.clock[0]["estimated"] = times.clock[0]["estimated"]
    set_clock(other, float(now(times)))
    return other


def merged_speeds(sources: Sequence[WorkerEstimates]) -> WorkerEstimates:
    """Return workers with nothing to do and the mean speeds of all sources.

    Each source keeps its own waiting times, which come from what it sent itself.
    """
    first = sources[0]
    interval, load = float(first.clock[0]["interval"]), float(first.clock[0]["load"])
    seconds = unordered_mean([source.seconds for source in sources])
    return worker_estimates(seconds, first.capacities, interval, load)


def with_speeds(own: WorkerEstimates, merged: WorkerEstimates) -> WorkerEstimates:
    """Return the waiting records of `own` with the workers' speeds of `merged`."""
    copy = copy_state(own)
    if np.array_equal(own.capacities, merged.capacities):
        if not np.array_equal(own.seconds, merged.seconds):
            observe(copy, merged.seconds)
        return copy
    return rescaled(own, merged.capacities, joins_with=0.0)
