"""The cell that most figures have: a simulation, described by plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.records import Row
from skewless import registry, workloads
from skewless.simulator import Cluster, Event, Measuring, Sync, Timing, simulate

#: Columns of a summary that depend on the machine, so they are no part of a raw record.
_OF_THE_MACHINE = ("ns_per_record", "plan_seconds_mean", "planned_plan_seconds_mean")


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
    sync_delay: int = 0
    horizon: int = 0
    state_windows: int = 5
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
            sync=Sync(self.sync, work=self.sync_delay) if self.sync else 0,
            cluster=Cluster(self.capacities, [Event(**event) for event in self.events]),
            measuring=Measuring(state_windows=self.state_windows),
            timing=None if self.timing is None else Timing(**self.timing),
        )
        row = run.summary() | run.by_window()
        return {name: value for name, value in row.items() if name not in _OF_THE_MACHINE}
