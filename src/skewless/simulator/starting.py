"""What a simulation is given, checked before it starts; its states and its workers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from skewless.arrays import Floats, Keys, Workers
from skewless.moves import moves_between
from skewless.parameters import check_types, require_count
from skewless.plumbing.arguments import shown
from skewless.registry import strategy_of
from skewless.simulator.timed.timing import Event
from skewless.state import state_bytes
from skewless.strategies.rescaling import places
from skewless.strategy import AnyStrategy, Moves, Rescales, RescalesKeys

#: The most sources: each has a state of its own.
MOST_SOURCES = 1 << 20


@dataclass(frozen=True)
class Cluster:
    """Workers that differ from each other, or that change while a simulation runs.

    Parameters
    ----------
    capacities
        Relative speeds of the workers. A strategy that can `rescale` is told about them.
    events
        What happens to workers: they change speed, leave or join.
    """

    capacities: ArrayLike | None = None
    events: Sequence[Event] = ()


@dataclass(frozen=True)
class Measuring:
    """What a simulation counts, and what it keeps of it.

    Parameters
    ----------
    state_windows
        How many windows a key's state reaches back: what its move costs.
    forwarding
        Count, window by window, which partial results need no merging by key: `Run.merging`. For
        strategies that can tell, as Dalton can. The merge stage then merges only the others.
    keep_loads
        Keep the load of each worker in each window: `Run.windows.loads`.
    max_pairs
        Above this many distinct (key, worker) pairs the replication is an estimate; see
        `ReplicaCounter`.
    chunk_size
        Records that are read at once. No result depends on it.
    """

    name: ClassVar[str] = "measuring"

    state_windows: int = 5
    forwarding: bool = False
    keep_loads: bool = False
    max_pairs: int = 1 << 25
    chunk_size: int = 1 << 18

    def __post_init__(self) -> None:
        check_types(self)
        require_count(self, "state_windows", "max_pairs", "chunk_size")


def require_parts(strategy: object, workload: object) -> None:
    """Raise ValueError unless these are a strategy and a workload."""
    if isinstance(strategy, str):
        raise ValueError(
            f"strategy must be a strategy such as registry.make({shown(strategy)}), not its name"
        )
    strategy_of(strategy)
    if isinstance(workload, type) or not all(
        hasattr(workload, member) for member in ("name", "n_records", "chunks")
    ):
        raise ValueError(
            f"workload must be a workload such as workloads.make('zipf'), not {shown(workload)}"
        )


def require_capacities(
    capacities: ArrayLike | None, n_workers: int, *, may_be_0: bool = False
) -> Floats:
    """Return the speeds of the workers; raise ValueError unless there is one for each.

    `may_be_0`: some workers may have left, not all.
    """
    if capacities is None:
        return np.ones(n_workers)
    try:
        speeds = np.asarray(capacities, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"capacities must be numbers, not {shown(capacities)}") from None
    if speeds.shape != (n_workers,):
        raise ValueError(
            f"capacities must be one number per worker: {n_workers}, not {speeds.size}"
        )
    allowed = (speeds >= 0) & (speeds.max() > 0) if may_be_0 else speeds > 0
    most = np.finfo(np.float64).max / n_workers  # their sum is finite, too
    if not (allowed & (speeds <= most)).all():
        which = "of at least 0, one of them above 0" if may_be_0 else "above 0"
        raise ValueError(
            f"capacities must be numbers {which} with a finite sum, not {shown(speeds.tolist())}"
        )
    return speeds


def start_sources(strategy: AnyStrategy, n_workers: int, n_sources: int, seed: int) -> list[Any]:
    """Return the states of sources that have seen nothing; raise ValueError if memory is short."""
    try:
        first = strategy.start(n_workers, seed, source=0)
    except MemoryError as error:
        raise ValueError(
            f"n_workers: {n_workers:,} workers with {shown(strategy)} need more memory than "
            f"there is: {error}"
        ) from None
    require_memory(
        state_bytes(first) * n_sources,
        f"n_sources: {n_sources:,} sources of {strategy.name} with {n_workers:,} workers",
    )
    return [first, *(strategy.start(n_workers, seed, source=s) for s in range(1, n_sources))]


def require_memory(needed: int, what: str) -> None:
    """Raise ValueError if `needed` bytes are more than this machine is known to have."""
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return
    if needed > there:
        raise ValueError(
            f"{what} need {needed / 2**30:,.1f} GiB, and this machine has {there / 2**30:,.1f}"
        )


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
            if event.kind != "speed":
                met.add(event.worker)
        self._refuse_what_cannot_be(events)
        # The workers by the numbers that the strategy has for them; None: the same.
        self._there_before: Workers | None = None
        self._there = self._places()

    def _places(self) -> Workers | None:
        return None if self._strategy.traits.any_may_leave else places(self._told)

    def _refuse_what_cannot_be(self, events: Sequence[Event]) -> None:
        """Raise ValueError now rather than in the middle of a run."""
        capacities = self.capacities.copy()
        self._require_rescaling(capacities)
        for event in events:
            there = capacities[event.worker] > 0
            if there == (event.kind == "join"):
                state = "is active already" if there else "is not active"
                raise ValueError(
                    f"events: worker {event.worker} cannot {event.kind} at record {event.at}: "
                    f"it {state}"
                )
            if event.kind != "speed":
                capacities[event.worker] = event.capacity
                if not capacities.any():
                    raise ValueError(f"events: no worker is left at record {event.at}")
                self._require_rescaling(capacities)
            elif event.told and not isinstance(self._strategy, Rescales):
                raise ValueError(f"events: {self._strategy.name} cannot be told of speeds")

    def _require_rescaling(self, capacities: Floats) -> None:
        if not (capacities > 0).all() and not isinstance(self._strategy, Rescales):
            raise ValueError(f"events: {self._strategy.name} has a fixed number of workers")

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
        self.capacities[event.worker] = event.capacity
        if event.kind == "speed" and not event.told:
            return False
        self._told[event.worker] = self.capacities[event.worker]
        self._there_before, self._there = self._there, self._places()
        return True

    @property
    def needs_telling(self) -> bool:
        """Whether workers differ from what a strategy expects at the start."""
        return not (self._told == self._told[0]).all() or self._told[0] == 0

    def rescaled(self, state: Any, keys: Keys) -> tuple[Any, Moves | None]:
        """Return the state for the present workers, and the moves of `keys`, if they are known."""
        if not isinstance(self._strategy, Rescales):
            return state, None
        before = self._there_before
        capacities = self._told if self._there is None else self._told[self._there]
        if not isinstance(self._strategy, RescalesKeys):
            return self._strategy.rescale(state, capacities.size, capacities), None
        found, moves = self._strategy.rescale_keys(keys, state, capacities.size, capacities)
        if before is None and self._there is None:
            return found, moves
        owners = np.empty((2, keys.size), np.int32)
        for one, out, there in zip((state, found), owners, (before, self._there), strict=True):
            self._strategy.route(keys, one, out)
            out[:] = out if there is None else there[out]
        return found, moves_between(keys, *owners)

    def workers_of(self, numbers: Workers) -> Workers:
        """Return the workers that the strategy means by its numbers, if there are such workers."""
        n_workers = (self._told if self._there is None else self._there).size
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < n_workers:
            raise RuntimeError(f"{self._strategy.name} sent a record outside 0 … {n_workers - 1}")
        return numbers if self._there is None else self._there[numbers]
