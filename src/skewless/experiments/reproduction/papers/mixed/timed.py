"""A cell in virtual time whose plans take as long as their counted work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from skewless import registry, workloads
from skewless.experiments.reproduction.cells import Simulation
from skewless.experiments.reproduction.papers.mixed.planning import Work, counted
from skewless.experiments.tables import Row
from skewless.simulator import simulate
from skewless.strategy import AnyStrategy, Moves, Rebalances, Report


@dataclass
class Plans:
    """How many plans were made, and the work of all of them."""

    made: int = 0
    steps: int = 0

    def per_plan(self) -> float:
        """Return the work of one plan; 0 where none was made."""
        return self.steps / self.made if self.made else 0.0


def _counting(strategy: AnyStrategy) -> Plans:
    """Return the count of plans that this strategy makes from now on."""
    plans, work = Plans(), counted(strategy)
    if isinstance(strategy, Rebalances):
        rebalance = strategy.rebalance

        def counting(report: Report, state: Any) -> tuple[Any, Moves]:
            before = Work(**vars(work))
            found = rebalance(report, state)
            if work.steps > before.steps:
                plans.made += 1
                plans.steps += work.steps - before.steps
            return found

        object.__setattr__(strategy, "rebalance", counting)
    return plans


@dataclass(frozen=True)
class Timed:
    """One strategy on one stream in virtual time.

    The stream is routed twice. The first time, without a clock, the work of a plan is counted: see
    `planning`. The second time each plan takes that work divided by `steps_per_second`.
    """

    strategy: str
    of: Mapping[str, Any]  # of the workload `fluctuation`
    timing: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    steps_per_second: float = 1e6
    n_workers: int = 15
    n_sources: int = 10
    window: int = 10_000
    state_windows: int = 5
    events: Sequence[Mapping[str, Any]] = ()
    seed: int = 1

    def run(self) -> Row:
        """Simulate twice; return the summary and the windows of the second run."""
        strategy = registry.make(self.strategy, **self.settings)
        seconds = 0.0
        if isinstance(strategy, Rebalances):
            plans = _counting(strategy)
            simulate(
                strategy,
                workloads.make("fluctuation", **self.of),
                n_workers=self.of["n_workers"],
                n_sources=self.n_sources,
                seed=self.seed,
                window=self.window,
                state_windows=self.state_windows,
            )
            seconds = plans.per_plan() / self.steps_per_second
        timed = Simulation(
            self.strategy,
            "fluctuation",
            settings=self.settings,
            of=self.of,
            n_workers=self.n_workers,
            n_sources=self.n_sources,
            seed=self.seed,
            window=self.window,
            state_windows=self.state_windows,
            timing=dict(self.timing) | ({"plan": seconds} if seconds else {}),
            events=self.events,
        ).run()
        return timed | {"seconds_per_plan": seconds}
