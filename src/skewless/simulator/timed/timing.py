"""How long things take in a simulation, and what happens to workers while it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from skewless.parameters import check_types, require
from skewless.plumbing.arguments import shown

_MOST_WAITING = 1 << 20
#: The longest time that anything may take once: some 30 years.
LONGEST_SECONDS = 1e9
#: The least and the most records per second, and the least and the largest capacity.
_RATES = (1e-6, 1e12)
_CAPACITIES = (1e-6, 1e6)


@dataclass(frozen=True)
class Timing:
    """What takes how long, in virtual seconds. Nothing of it depends on the machine.

    A record leaves its source when it has arrived there, the source is free, and the queue of its
    worker has room. It then waits in the queue of its worker, first come, first served. A source
    whose record finds no room waits with all that follows: that is back-pressure.

    Parameters
    ----------
    service
        Seconds that a record of weight 1 takes a worker of capacity 1.
    spread
        `fixed`: as long as `service` says; `exponential`: that is the mean.
    arrivals
        When records reach their sources. `full`: all are there, and back-pressure alone decides.
        `even`: at the rate, one by one. `poisson`: at random, at that mean rate.
    rate
        Records per second, over all sources; not for `full`.
    emit
        Seconds that a source takes for a record: reading it and choosing its worker.
    queue
        Records that may wait for a worker.
    pending
        Records of one source that may be under way, the ones in service included; 0: no limit.
    merge
        Seconds to merge one replica of a key, at the end of each window.
    reducers
        Workers of the merge stage; a key belongs to one of them.
    unmerged
        Windows whose results may wait for the merge stage before sources wait; 0: no limit.
    plan
        Seconds that a plan of the moving family takes.
    transfer
        Seconds to move one unit of state; each worker sends its keys one after the other.
    """

    name: ClassVar[str] = "timing"

    service: float = 1e-4
    spread: Literal["fixed", "exponential"] = "fixed"
    arrivals: Literal["full", "even", "poisson"] = "full"
    rate: float = 0.0
    emit: float = 0.0
    queue: int = 1024
    pending: int = 0
    merge: float = 0.0
    reducers: int = 1
    unmerged: int = 0
    plan: float = 0.0
    transfer: float = 0.0

    def __post_init__(self) -> None:
        check_types(self)
        service = 0 < self.service <= LONGEST_SECONDS
        require(self, "service", service, f"above 0 and at most {LONGEST_SECONDS:g}")
        if self.arrivals == "full":
            require(self, "rate", self.rate == 0, "0 where arrivals are full")
        else:
            least, most = _RATES
            allowed = f"{least:g} … {most:g} where arrivals are {self.arrivals}"
            require(self, "rate", least <= self.rate <= most, allowed)
        require(self, "queue", 1 <= self.queue <= _MOST_WAITING, f"1 … {_MOST_WAITING:,}")
        require(self, "pending", 0 <= self.pending <= _MOST_WAITING, f"0 … {_MOST_WAITING:,}")
        require(self, "reducers", self.reducers >= 1, "at least 1")
        require(self, "unmerged", self.unmerged >= 0, "at least 0")
        require(self, "unmerged", not self.unmerged or self.merge > 0, "0 where merge is 0")
        for parameter in ("emit", "merge", "plan", "transfer"):
            seconds = 0 <= getattr(self, parameter) <= LONGEST_SECONDS
            require(self, parameter, seconds, f"0 … {LONGEST_SECONDS:g}")


@dataclass(frozen=True)
class Event:
    """Something that happens to a worker while a simulation runs.

    Parameters
    ----------
    at
        The record of the stream before which it happens, from 0.
    worker
        The worker that it happens to.
    kind
        `speed`: its capacity becomes `value`, for the records that are sent to it from then on.
        `leave`: it gets no further records; what it has, it finishes. `join`: it takes part from
        now on, with the capacity `value`; it gets nothing before.
    value
        A capacity.
    told
        Whether the strategy is told of a new speed. It is always told of `leave` and `join`.
    """

    name: ClassVar[str] = "event"

    at: int
    worker: int
    kind: Literal["speed", "leave", "join"]
    value: float = 1.0
    told: bool = False

    def __post_init__(self) -> None:
        check_types(self)
        require(self, "at", self.at >= 0, "at least 0")
        require(self, "worker", self.worker >= 0, "at least 0")
        if self.kind != "leave":
            least, most = _CAPACITIES
            require(self, "value", least <= self.value <= most, f"{least:g} … {most:g}")

    @property
    def capacity(self) -> float:
        """The capacity of the worker from now on; 0: it no longer takes part."""
        return 0.0 if self.kind == "leave" else self.value


def require_events(
    events: object, n_workers: int, n_records: int | None = None
) -> tuple[Event, ...]:
    """Return the events in order; raise ValueError unless they can happen.

    They must be events of these workers, within the stream where its length is known.
    """
    if not isinstance(events, (list, tuple)) or not all(isinstance(e, Event) for e in events):
        raise ValueError(f"events must be a list of Event, not {shown(events)}")
    for event in events:
        if event.worker >= n_workers:
            raise ValueError(
                f"events: worker {event.worker} is not one of the {n_workers} workers "
                f"0 … {n_workers - 1}"
            )
        if n_records is not None and event.at >= n_records:
            raise ValueError(
                f"events: at must be within the stream, which has {n_records:,} records, not "
                f"{event.at:,}"
            )
    return tuple(sorted(events, key=lambda event: event.at))
