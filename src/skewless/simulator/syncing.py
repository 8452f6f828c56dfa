"""Sources that learn together: messages that take time, waiting, and an interval that adapts.

Dalton's section 4, for any strategy that merges. After each interval, a source sends its state to a
reducer (SYNC) and continues to route while it waits (AWAIT). When all have sent, the reducer merges
the states and answers all sources, and each source continues with the answer (PREPARE).

Time counts records of the stream, over all sources. Nothing depends on the machine, so a run can be
repeated exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from skewless.arrays import Keys, Workers
from skewless.parameters import require
from skewless.plumbing.arguments import shown, whole
from skewless.state import copy_state
from skewless.strategy import Condenses, Forks, Rebalances, Report, Waits

_FAR = 1 << 62


@dataclass(frozen=True)
class Sync:
    """How sources tell each other what they learned. All counts are records, over all sources.

    Parameters
    ----------
    interval
        DSYNC: from one message of a source to its next. Strategies that decide by window send at
        the end of the window in which it is due. An interval shorter than a round, in which each
        source routes one record, counts as a round: before, a source has learned nothing new.
    delay
        How long a message takes, to the reducer or back; one number, or one per source.
    work
        How long the reducer takes to merge, or a function of the record at which it begins.
    adaptive, shortest
        Let `next_interval` change the interval, which stays at least `shortest`. What it halves is
        rounded down to whole rounds, in which each source routes one record.
    """

    name: ClassVar[str] = "sync"

    interval: int
    delay: int | Sequence[int] = 0
    work: int | Callable[[int], int] = 0
    adaptive: bool = False
    shortest: int = 1

    def __post_init__(self) -> None:
        for parameter, least in (("interval", 1), ("shortest", 1)):
            number = whole(getattr(self, parameter), f"sync: {parameter}", least=least)
            object.__setattr__(self, parameter, number)
        require(self, "adaptive", isinstance(self.adaptive, bool), "True or False")
        if not callable(self.work):
            object.__setattr__(self, "work", whole(self.work, "sync: work"))
        given: Any = self.delay
        if isinstance(given, (list, tuple)):
            delay: Any = tuple(whole(one, "sync: delay") for one in given)
        else:
            delay = whole(given, "sync: delay")
        object.__setattr__(self, "delay", delay)
        fits = self.adaptive or self.shortest == 1
        require(self, "adaptive", fits, "True where shortest is given")
        enough = self.interval >= self.shortest
        require(self, "interval", enough, f"at least shortest, {self.shortest:,}")

    def delays(self, n_sources: int) -> list[int]:
        """Return the delay of each source; raise ValueError unless there is one for each."""
        if isinstance(self.delay, int):
            return [self.delay] * n_sources
        if len(self.delay) != n_sources:
            raise ValueError(
                f"sync: delay must be one number or one for each of the {n_sources} sources, not "
                f"{shown(list(self.delay))}"
            )
        return list(self.delay)


@dataclass(frozen=True)
class Exchange:
    """One exchange of all sources."""

    sent: int  # by the last source
    received: int  # by the last source
    interval: int  # until the next one, as the reducer decided
    n_late: int  # sources that still waited when their interval was over


def merge_and_fork(strategy: Any, states: Sequence[Any]) -> list[Any]:
    """Return the states with which the sources continue after an exchange that takes no time."""
    merged = strategy.merge(states)
    return [take_over(strategy, merged, own, source) for source, own in enumerate(states)]


def take_over(strategy: Any, merged: Any, own: Any, source: int) -> Any:
    """Return the state with which `source`, now at `own`, continues after a merge."""
    if isinstance(strategy, Forks):
        return strategy.fork(merged, own, source)
    return copy_state(merged)


def next_interval(interval: int, *, n_late: int, idle: int, busy: int) -> int:
    """Return the interval that the reducer asks for.

    It doubles if a source was late, because it still waited at the end of the last interval. It is
    halved if the reducer was idle for longer than an exchange takes. If an exchange takes between
    half of the interval and all of it, nothing changes, so the interval settles.

    >>> next_interval(20, n_late=0, idle=15, busy=5), next_interval(10, n_late=0, idle=5, busy=5)
    (10, 10)
    """
    if n_late:
        return 2 * interval
    return interval // 2 if idle > busy else interval


class Exchanges:
    """The reducer, and the messages between it and the sources."""

    def __init__(self, strategy: Any, sync: Sync, n_sources: int) -> None:
        self.done: list[Exchange] = []
        self.told = [n_sources == 1] * n_sources  # in this window; one source needs no answer
        self._strategy = strategy
        self._n_sources = n_sources
        self._by_batch = strategy.traits.decides == "batch"
        self._interval = max(sync.interval, n_sources)
        self._shortest = max(sync.shortest, n_sources)
        self._adaptive = sync.adaptive
        self._delays = sync.delays(n_sources)
        self._work = sync.work
        self._now = 0
        self._sent = [0] * n_sources  # when the last message was sent
        self._counted = [0] * n_sources  # from where the interval counts
        self._arrivals = [_FAR] * n_sources  # when the answer comes
        self._not_before = [0] * n_sources  # when the next message may be sent
        self._messages: dict[int, Any] = {}  # of sources that wait for the others
        self._late: set[int] = set()
        self._answer: tuple[Any, int] | None = None
        self._last_answer = 0

    @property
    def next_event(self) -> int:
        """The record before which a message is sent or arrives next."""
        waits, due = self._waits, self._due
        return min(self._arrivals[s] if waits(s) else due(s) for s in range(self._n_sources))

    def _waits(self, source: int) -> bool:
        return source in self._messages or self._arrivals[source] != _FAR

    def _due(self, source: int) -> int:
        """Return when the next message is sent; this depends on messages only, on no other cut."""
        return max(self._counted[source] + self._interval, self._not_before[source])

    def exchange(self, now: int, states: list[Any]) -> list[Any]:
        """Deliver and send what is due now; messages without delay arrive at once."""
        self._now = now
        states = self._deliver(states)
        sending = [
            source
            for source in range(self._n_sources)
            if not self._waits(source) and now >= self._due(source)
        ]
        if not sending:
            return states
        at_once = len(sending) == self._n_sources
        for source in sending:
            # Alg. 2, l. 14–16. What is merged below needs no copy.
            self._messages[source] = states[source] if at_once else copy_state(states[source])
            self._sent[source] = now
            # The next interval counts from now or, for batches, from where it was due.
            late = (now - self._counted[source]) % self._interval if self._by_batch else 0
            self._counted[source] = now - late
        if len(self._messages) == self._n_sources:
            self._reduce()
        for source in sending:
            if isinstance(self._strategy, Waits) and self._arrivals[source] > now:
                self._strategy.wait(states[source])
        states = self._deliver(states)
        for source in range(self._n_sources):
            # An interval may be over already, because it became shorter or because the source had
            # waited for the others: then the message is sent in the next round.
            if not self._waits(source) and self._due(source) <= now:
                self._not_before[source] = now + self._n_sources
        return states

    def _reduce(self) -> None:
        """Merge the messages of all sources; the answers are on their way."""
        merged = self._strategy.merge([self._messages[s] for s in range(self._n_sources)])
        complete = max(s + d for s, d in zip(self._sent, self._delays, strict=True))
        ready = complete + (self._work(complete) if callable(self._work) else self._work)
        self._arrivals = [ready + d for d in self._delays]
        received = max(self._arrivals)
        interval = self._interval
        if self._adaptive:
            interval = next_interval(
                interval,
                n_late=len(self._late),
                idle=min(self._sent) - self._last_answer,
                busy=received - min(self._sent),
            )
        if interval < self._interval:
            interval = max(interval - interval % self._n_sources, self._shortest)
        self.done.append(Exchange(max(self._sent), received, interval, len(self._late)))
        self._answer = merged, interval
        self._last_answer = received
        self._messages = {}
        self._late = set()

    def _deliver(self, states: list[Any]) -> list[Any]:
        """Alg. 2, l. 17–20."""
        if self._answer is None:
            return states
        merged, interval = self._answer
        states = list(states)
        for source, arrival in enumerate(self._arrivals):
            if arrival > self._now:
                continue
            states[source] = take_over(self._strategy, merged, states[source], source)
            if self._now - self._sent[source] > interval:  # too late for its new interval, too
                self._late.add(source)
            self._arrivals[source] = _FAR
            self.told[source] = True
        if all(arrival == _FAR for arrival in self._arrivals):
            self._interval = interval
            self._answer = None
        return states

    def change(self, rescaled: Callable[[Any], Any]) -> None:
        """Apply a change of the workers to the messages under way."""
        self._messages = {source: rescaled(state) for source, state in self._messages.items()}
        if self._answer is not None:
            self._answer = rescaled(self._answer[0]), self._answer[1]


class MicroBatches:
    """The sources of a query; their number may change from one micro-batch to the next.

    As on Spark, the sources with records in a micro-batch route them and report. The merge of their
    reports is the plan of the next one. Other sources have no part in it. When they have records
    again, they continue from the newest plan and their own last report. If the strategy rebalances,
    the plan is made from the records of all keys in the micro-batch.
    """

    def __init__(self, strategy: Any, n_workers: int, seed: int, *, merging: bool = True) -> None:
        """Begin before the first micro-batch. Without `merging`, sources continue alone."""
        self.reports: dict[int, Any] = {}  # the last one of each source
        self.plan: Any = None
        self._strategy = strategy
        self._steps = [n_workers]
        self._seed = seed
        self._merging = merging

    def rescale(self, n_workers: int) -> None:
        """Let the next micro-batch have another number of workers."""
        self._steps.append(n_workers)
        rescale = self._strategy.rescale
        self.reports = {one: rescale(state, n_workers) for one, state in self.reports.items()}
        self.plan = None if self.plan is None else rescale(self.plan, n_workers)

    def _start(self, source: int = 0) -> Any:
        """Return the state of a source that has learned nothing; it knows of earlier workers."""
        state = self._strategy.start(self._steps[0], self._seed, source=source)
        for n_workers in self._steps[1:]:
            state = self._strategy.rescale(state, n_workers)
        return state

    def state(self, source: int) -> Any:
        """Build the state with which a source begins the next micro-batch."""
        if self.plan is not None and isinstance(self._strategy, Condenses):
            return copy_state(self.plan)
        own = self.reports.get(source)
        # Workers are idle when a micro-batch begins, so a backlog that was inferred is over.
        if own is None or (self.plan is not None and hasattr(self._strategy, "waiting")):
            own = self._start(source)
        return own if self.plan is None else take_over(self._strategy, self.plan, own, source)

    def route(self, batch: Sequence[Keys]) -> list[Workers]:
        """Route a micro-batch, in which source s has the records of `batch[s]`, and merge."""
        found = []
        reporting = {source: self.state(source) for source, keys in enumerate(batch) if keys.size}
        for source, keys in enumerate(batch):
            found.append(np.full(keys.size, -1, np.int32))
            if source in reporting:
                self._strategy.route(keys, reporting[source], found[-1])
        self.reports |= reporting
        if self._merging and reporting:
            rebalances = isinstance(self._strategy, Rebalances)
            states = list(reporting.values())
            self.plan = self._rebalanced(batch) if rebalances else self._merged(states)
        return found

    def _rebalanced(self, batch: Sequence[Keys]) -> Any:
        keys, counts = np.unique(np.concatenate(batch), return_counts=True)
        noise = max(counts.sum() / self._steps[-1], 1.0) ** -0.5  # of m records: m ± √m by chance
        report = Report(keys, counts.astype(np.float64), np.ones(keys.size), noise=float(noise))
        state = self._start() if self.plan is None else copy_state(self.plan)
        return self._strategy.rebalance(report, state)[0]

    def _merged(self, states: list[Any]) -> Any:
        strategy = self._strategy
        if not isinstance(strategy, Condenses):
            return strategy.merge(states)
        parts = [strategy.condense(state) for state in states]
        return strategy.merge_condensed(parts, self._start())
