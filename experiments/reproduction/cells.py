"""The cell that most figures have: a simulation, described by plain values. And a clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from benchmarks.records import Row
from skewless import registry, workloads
from skewless.arrays import Keys
from skewless.simulator import Cluster, Event, Timing, simulate

#: Columns of a summary that depend on the machine, so they are no part of a raw record.
_OF_THE_MACHINE = ("ns_per_record", "plan_seconds_mean", "planned_plan_seconds_mean")


def side_by_side(steps: Mapping[str, Callable[[int], object]], n_times: int) -> Row:
    """Return the median seconds of each function, called in turn with 1 … n_times.

    Seconds of one run are comparable with each other alone: claims are about their ratios. It is
    the time of this process, whatever else the machine does. A call with 0 compiles before.
    """
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for i in range(n_times + 1):
        for name, step in steps.items():
            begin = process_time()
            step(i)
            seconds[name].append(process_time() - begin)
    return {name: median(times[1:]) for name, times in seconds.items()}


def keys_of(workload: str, of: Mapping[str, Any], seed: int) -> Keys:
    """Return all keys of a stream, in order."""
    return np.concatenate(list(workloads.make(workload, **of).chunks(seed)))


def seconds_per_record(steps: Mapping[str, Callable[[Keys], object]], keys: Keys) -> Row:
    """Return the median seconds that each function takes for a record of a piece of these keys."""
    pieces = np.array_split(np.ascontiguousarray(keys), 12)
    whole = {name: lambda i, step=step: step(pieces[i]) for name, step in steps.items()}
    seconds = side_by_side(whole, len(pieces) - 1)
    return {name: value / pieces[0].size for name, value in seconds.items()}


@dataclass(frozen=True)
class Simulation:
    """One strategy on one stream; the parameters are those of `simulate`."""

    strategy: str
    workload: str
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the strategy
    of: Mapping[str, Any] = field(default_factory=dict)  # parameters of the workload
    n_workers: int = 16
    n_sources: int = 1
    seed: int = 1
    window: int = 10_000
    sync: int = 0
    horizon: int = 0
    capacities: Sequence[float] | None = None
    timing: Mapping[str, Any] | None = None
    events: Sequence[Mapping[str, Any]] = ()

    def run(self) -> Row:
        """Simulate, and return the summary, without what depends on the machine."""
        run = simulate(
            registry.make(self.strategy, **self.settings),
            workloads.make(self.workload, **self.of),
            n_workers=self.n_workers,
            n_sources=self.n_sources,
            seed=self.seed,
            window=self.window,
            horizon=self.horizon,
            sync=self.sync,
            cluster=Cluster(self.capacities, [Event(**event) for event in self.events]),
            timing=None if self.timing is None else Timing(**self.timing),
        )
        row = run.summary() | run.by_window()
        return {name: value for name, value in row.items() if name not in _OF_THE_MACHINE}
