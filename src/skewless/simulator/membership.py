"""Which workers take part in a simulation, and how fast they are, while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skewless.arrays import Floats, Keys
from skewless.simulator.timed.timing import Event, Timing
from skewless.strategy import AnyStrategy, Moves, Rescales, RescalesKeys


class Membership:
    """The workers of a run. A worker that does not take part has the capacity 0."""

    def __init__(self, strategy: AnyStrategy, capacities: Floats, events: Sequence[Event]) -> None:
        """Begin with all workers except those that join later; refuse impossible events."""
        self._strategy = strategy
        self._events = list(events)
        self.capacities = capacities.copy()  # the true ones
        self._told = capacities.copy()  # those that the strategy was told
        met: set[int] = set()
        for event in events:
            if event.kind == "join" and event.worker not in met:
                self.capacities[event.worker] = self._told[event.worker] = 0.0
            if event.kind == "join" or event.ends:
                met.add(event.worker)
        self._refuse_what_cannot_be(events)

    def _refuse_what_cannot_be(self, events: Sequence[Event]) -> None:
        """Raise ValueError now rather than in the middle of a run."""
        capacities = self.capacities.copy()
        self._require_rescaling(capacities)
        for event in events:
            if event.kind == "join" or event.ends:
                there = capacities[event.worker] > 0
                if there == (event.kind == "join"):
                    state = "is active already" if there else "is not active"
                    raise ValueError(
                        f"events: worker {event.worker} cannot {event.kind} at record "
                        f"{event.at}: it {state}"
                    )
                capacities[event.worker] = 0.0 if event.ends else event.value
                if not capacities.any():
                    raise ValueError(f"events: no worker is left at record {event.at}")
                self._require_rescaling(capacities)
            elif capacities[event.worker] == 0:
                raise ValueError(
                    f"events: worker {event.worker} cannot {event.kind} at record {event.at}: "
                    "it is not active"
                )
            elif event.told and not isinstance(self._strategy, Rescales):
                raise ValueError(f"events: {self._strategy.name} cannot be told of speeds")

    def _require_rescaling(self, capacities: Floats) -> None:
        if (capacities > 0).all():
            return
        if not isinstance(self._strategy, Rescales):
            raise ValueError(f"events: {self._strategy.name} has a fixed number of workers")
        gone = int(np.flatnonzero(capacities == 0)[0])
        if not self._strategy.traits.any_may_leave and capacities[gone:].any():
            raise ValueError(
                f"events: with {self._strategy.name} only the last workers can leave, not worker "
                f"{gone}"
            )

    def require_clock(self, timing: Timing | None) -> None:
        """Raise ValueError if a worker fails in a run without a clock, where it has no queue."""
        if timing is None and self.failing:
            raise ValueError(
                "events: a worker can fail only in a run with timing; without, let it leave"
            )

    @property
    def failing(self) -> list[int]:
        """The workers that will fail, each as often as it does."""
        return [event.worker for event in self._events if event.kind == "fail"]

    @property
    def next_event(self) -> int | None:
        """The record before which something happens next."""
        return self._events[0].at if self._events else None

    def due(self, n_records: int) -> list[Event]:
        """Take the events that happen before this record."""
        due = []
        while self._events and self._events[0].at <= n_records:
            due.append(self._events.pop(0))
        return due

    def apply(self, event: Event) -> bool:
        """Note what happens to a worker; return whether the strategy has to be told."""
        if event.kind == "stop":
            return False
        self.capacities[event.worker] = 0.0 if event.ends else event.value
        if event.kind == "speed" and not event.told:
            return False
        self._told[event.worker] = self.capacities[event.worker]
        return True

    @property
    def needs_telling(self) -> bool:
        """Whether workers differ from what a strategy expects at the start."""
        return not (self._told == self._told[0]).all() or self._told[0] == 0

    def rescaled(self, state: Any, keys: Keys) -> tuple[Any, Moves | None]:
        """Return the state for the present workers, and the moves of `keys`, if they are known."""
        n_workers, capacities = self._told.size, self._told
        if not self._strategy.traits.any_may_leave:
            n_workers = int((self._told > 0).sum())  # the others are the last ones
            capacities = self._told[:n_workers]
        if isinstance(self._strategy, RescalesKeys):
            return self._strategy.rescale_keys(keys, state, n_workers, capacities)
        if isinstance(self._strategy, Rescales):
            return self._strategy.rescale(state, n_workers, capacities), None
        return state, None
