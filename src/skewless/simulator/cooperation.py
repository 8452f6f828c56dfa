"""Sources that learn together: messages that take time, waiting, and an interval that adapts.

Dalton's section 4, for any strategy that merges. Each source sends its state to a reducer every
so many records (SYNC) and goes on routing while it waits (AWAIT); when all have sent, the reducer
merges the states and answers all of them, and each source goes on with what it gets (PREPARE).

Time is virtual and counts rounds: in each, every source routes one record. Nothing depends on the
machine, so a run can be repeated exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewless.arguments import whole
from skewless.arrays import Keys, Workers
from skewless.simulator.records import Records, decide, joined, read_records
from skewless.simulator.starting import require_counts, require_parts, start_sources
from skewless.simulator.tally import Tally, Windows
from skewless.state import copy_state
from skewless.strategy import AnyStrategy, Forks, Forwards, Merges, Waits
from skewless.workloads.workload import Weighted, Workload

_FAR = 1 << 62


@dataclass(frozen=True)
class Sync:
    """One exchange of all sources; times are in rounds."""

    sent: int  # by the last source
    received: int  # by the last source
    interval: int  # until the next one, as the reducer decided
    n_late: int  # sources that had still waited when their interval was over


@dataclass(frozen=True)
class Slide:
    """What the workers of one window hand on, with key forwarding."""

    n_keys: int
    n_pairs: int
    n_merged_pairs: int  # pairs (key, worker) that are merged by key; the others are final
    n_wrong: int  # keys of which a part was taken for the whole


@dataclass(frozen=True)
class Cooperation:
    """The raw result of a run of cooperating sources."""

    n_records: int
    loads: NDArray[Any]  # records of each worker, or what they cost
    windows: Windows
    syncs: tuple[Sync, ...]
    slides: tuple[Slide, ...]


def merge_and_fork(strategy: Any, states: Sequence[Any]) -> list[Any]:
    """Return the states with which the sources go on after an exchange that takes no time."""
    merged = strategy.merge(states)
    return [take_over(strategy, merged, own, source) for source, own in enumerate(states)]


def take_over(strategy: Any, merged: Any, own: Any, source: int) -> Any:
    """Return the state with which `source`, now at `own`, goes on after a merge."""
    if isinstance(strategy, Forks):
        return strategy.fork(merged, own, source)
    return copy_state(merged)


def next_interval(interval: int, *, n_late: int, idle: int, busy: int) -> int:
    """Return the interval that the reducer asks for.

    Twice as long when a source asked for it because it had still waited at the end of the last
    one; half as long when the reducer was idle for longer than an exchange takes. An exchange
    that fits between half and the whole of the interval changes nothing, so it settles.

    >>> next_interval(20, n_late=0, idle=15, busy=5), next_interval(10, n_late=0, idle=5, busy=5)
    (10, 10)
    """
    if n_late:
        return 2 * interval
    return interval // 2 if idle > busy else interval


def cooperate(
    strategy: AnyStrategy,
    workload: Workload,
    *,
    n_workers: int,
    n_sources: int,
    seed: int = 0,
    window: int = 10_000,
    interval: int = 10_000,
    delay: int | Sequence[int] = 0,
    work: int | Callable[[int], int] = 0,
    adaptive: bool = False,
    shortest: int = 1,
    longest: int | None = None,
    max_pairs: int = 1 << 25,
) -> Cooperation:
    """Route every record of `workload` by sources that exchange what they learned.

    Where the records have weights, loads are what they cost, as in `simulate`.

    Parameters
    ----------
    window
        Records per window, over all sources: for the counts, and for key forwarding.
    interval
        DSYNC: records of a source from one message to its next.
    delay
        Rounds that a message takes, to the reducer or back; one number, or one per source.
    work
        Rounds that the reducer takes to merge, or a function of the round in which it begins.
    adaptive, shortest, longest
        Let `next_interval` change the interval, within these bounds.
    """
    require_parts(strategy, workload)
    n_workers, n_sources, window = require_counts(n_workers, n_sources, window)
    interval = whole(interval, "interval", least=1)
    delays = [delay] * n_sources if isinstance(delay, int) else list(delay)
    if not isinstance(strategy, Merges):
        raise ValueError(f"{strategy.name} does not merge, so its sources cannot cooperate")
    if len(delays) != n_sources or min(delays) < 0:
        raise ValueError(f"delay must be 0 or more, one or {n_sources} numbers, not {delay!r}")
    if window < 1 or window % n_sources:
        raise ValueError(f"window must be a multiple of the {n_sources} sources, not {window}")
    bounds = (shortest, _FAR if longest is None else longest) if adaptive else (interval, interval)
    if not 1 <= bounds[0] <= interval <= bounds[1]:
        raise ValueError(f"interval must be within shortest … longest, not {interval}")
    reader = _Reader(workload, seed)
    return _Run(
        strategy,
        start_sources(strategy, n_workers, n_sources, seed),
        reader,
        Tally(n_workers, window, np.ones(n_workers), max_pairs, weighted=reader.weighted),
        rounds_per_window=window // n_sources,
        interval=interval,
        bounds=bounds,
        delays=delays,
        work=work if callable(work) else lambda _: int(work),
    ).to_end()


class _Reader:
    """Hands out the records of a workload in pieces of any size."""

    def __init__(self, workload: Workload, seed: int) -> None:
        weights = workload.weights(seed) if isinstance(workload, Weighted) else None
        self.weighted = weights is not None
        self._chunks = read_records(workload.chunks(seed), weights)
        self._rest = Records(np.empty(0, np.uint64), np.empty(0) if self.weighted else None)

    def read(self, n_records: int) -> Records:
        pieces = [self._rest]
        n_read = self._rest.keys.size
        while n_read < n_records:
            chunk = next(self._chunks, None)
            if chunk is None:
                break
            pieces.append(chunk)
            n_read += chunk.keys.size
        records = joined(pieces)
        self._rest = records.part(slice(n_records, None))
        return records.part(slice(n_records))


class _Run:
    """The sources, the reducer, and the messages between them."""

    def __init__(
        self,
        strategy: Any,
        states: list[Any],
        reader: _Reader,
        tally: Tally,
        *,
        rounds_per_window: int,
        interval: int,
        bounds: tuple[int, int],
        delays: list[int],
        work: Callable[[int], int],
    ) -> None:
        n_sources = len(states)
        self.strategy = strategy
        self.n_workers = tally.loads.size
        self.states = states
        self.reader = reader
        self.tally = tally
        self.round = 0
        self.n_records = 0
        self.rounds_per_window = rounds_per_window
        self.interval = interval
        self.bounds = bounds  # of the interval
        self.delays = delays
        self.work = work
        self.sent = [0] * n_sources  # when the last message went off
        self.arrivals = [_FAR] * n_sources  # when the answer comes
        self.messages: dict[int, Any] = {}  # of sources that wait for the others
        self.late: set[int] = set()
        self.answer: tuple[Any, int] | None = None
        self.last_answer = 0
        self.syncs: list[Sync] = []
        self.slides: list[Slide] = []
        self.told = [n_sources == 1] * n_sources  # has had an answer in this window
        self.routed: list[list[tuple[Keys, Workers]]] = [[] for _ in range(n_sources)]

    def to_end(self) -> Cooperation:
        """Go from event to event until the records are used up."""
        n_sources = len(self.states)
        while True:
            end_of_window = (self.round // self.rounds_per_window + 1) * self.rounds_per_window
            upcoming = min(end_of_window, *(self._next_event(s) for s in range(n_sources)))
            records = self.reader.read((upcoming - self.round) * n_sources)
            self._route(records)
            if records.keys.size < (upcoming - self.round) * n_sources:
                break
            self.round = upcoming
            self._exchange()
            if upcoming == end_of_window:
                self._end_window()
        return Cooperation(
            self.n_records,
            self.tally.loads,
            self.tally.finish(),
            tuple(self.syncs),
            tuple(self.slides),
        )

    def _waits(self, source: int) -> bool:
        return source in self.messages or self.arrivals[source] != _FAR

    def _next_event(self, source: int) -> int:
        if self._waits(source):
            return self.arrivals[source]
        return max(self.sent[source] + self.interval, self.round + 1)

    def _route(self, records: Records) -> None:
        n_records = records.keys.size
        workers = np.full(n_records, -1, np.int32)
        n_sources = len(self.states)
        for source, state in enumerate(self.states):
            share = records.part(slice(source, None, n_sources))
            out = np.full(share.keys.size, -1, np.int32)
            decide(self.strategy, share, state, out)
            workers[source::n_sources] = out
            self.routed[source].append((share.keys, out))
        self.n_records += n_records
        self.tally.add(records.keys, workers, records.weights)

    def _exchange(self) -> None:
        """Deliver and send what is due now; messages without delay arrive at once."""
        self._deliver()
        for source in range(len(self.states)):
            if not self._waits(source) and self.round >= self.sent[source] + self.interval:
                self._send(source)
        if len(self.messages) == len(self.states):
            self._reduce()
            self._deliver()

    def _send(self, source: int) -> None:
        """Alg. 2, l. 14–16."""
        self.messages[source] = copy_state(self.states[source])
        if isinstance(self.strategy, Waits):
            self.strategy.wait(self.states[source])
        self.sent[source] = self.round

    def _reduce(self) -> None:
        """Merge the messages of all sources; the answers are on their way."""
        merged = self.strategy.merge([self.messages[s] for s in range(len(self.states))])
        complete = max(s + d for s, d in zip(self.sent, self.delays, strict=True))
        ready = complete + self.work(complete)
        self.arrivals = [ready + d for d in self.delays]
        received = max(self.arrivals)
        interval = next_interval(
            self.interval,
            n_late=len(self.late),
            idle=min(self.sent) - self.last_answer,
            busy=received - min(self.sent),
        )
        interval = max(self.bounds[0], min(interval, self.bounds[1]))
        self.syncs.append(Sync(max(self.sent), received, interval, len(self.late)))
        self.answer = merged, interval
        self.last_answer = received
        self.messages = {}
        self.late = set()

    def _deliver(self) -> None:
        """Alg. 2, l. 17–20."""
        for source, arrival in enumerate(self.arrivals):
            if arrival > self.round or self.answer is None:
                continue
            merged, interval = self.answer
            own = self.states[source]
            self.states[source] = take_over(self.strategy, merged, own, source)
            if self.round - self.sent[source] > interval:  # also for the interval it now gets
                self.late.add(source)
            self.arrivals[source] = _FAR
            self.told[source] = True
            if all(a == _FAR for a in self.arrivals):
                self.interval = interval

    def _end_window(self) -> None:
        """Count what the workers merge by key, and what they hand on as final (section 4.2)."""
        if isinstance(self.strategy, Forwards):
            self.slides.append(self._slide(self.strategy))
        self.told = [len(self.states) == 1] * len(self.states)
        self.routed = [[] for _ in self.states]

    def _slide(self, strategy: Forwards[Any]) -> Slide:
        keys, workers, forwards = [], [], []
        for source, state in enumerate(self.states):
            own_keys = np.concatenate([k for k, _ in self.routed[source]])
            own_workers = np.concatenate([w for _, w in self.routed[source]])
            # Without an answer in this window it knows too little of the others.
            final = strategy.forwards(own_keys, own_workers, state) & self.told[source]
            _, index = np.unique(own_keys, return_inverse=True)
            split = np.bincount(index, weights=~final) > 0
            keys.append(own_keys)
            workers.append(own_workers)
            forwards.append(~split[index])
        return _slide_of(np.concatenate(keys), np.concatenate(workers), np.concatenate(forwards))


def _slide_of(keys: Keys, workers: Workers, forwards: NDArray[np.bool_]) -> Slide:
    """Count pairs, given for each record whether its source says that it needs no merging.

    A source that has sent records of a key elsewhere than to its hash worker tells the hash worker
    so. A worker merges its part of a key as soon as one of the sources says so, whether that has
    sent it records of the key or not. If none does, while the key has a part elsewhere, it hands on
    a part as final.
    """
    known, index = np.unique(keys, return_inverse=True)
    n_workers = int(workers.max()) + 1
    pairs = np.unique(index * n_workers + workers)
    key_of = pairs // n_workers
    pair_final = (np.bincount(index, weights=~forwards) == 0)[key_of]
    n_pairs = np.bincount(key_of)
    wrong = pair_final & (n_pairs[key_of] > 1)
    return Slide(
        n_keys=known.size,
        n_pairs=pairs.size,
        n_merged_pairs=int((~pair_final).sum()),
        n_wrong=int(np.unique(key_of[wrong]).size),
    )
