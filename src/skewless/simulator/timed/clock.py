"""Virtual time of a simulation: hands routed records to the queues, and keeps what is measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skewless.arrays import Floats, Ints, Keys, Workers
from skewless.kernels.hashing import seed_array
from skewless.simulator.forwarding import MergeStage
from skewless.simulator.starting import require_memory
from skewless.simulator.timed import queueing, under_way
from skewless.simulator.timed.queueing import Batch, Queues, Rules, with_records
from skewless.simulator.timed.timing import LONGEST_SECONDS, Timing
from skewless.simulator.timed.under_way import HeldKeys, Parked, Times, no_times
from skewless.state import zeros


@dataclass(frozen=True)
class WindowTimes:
    """One entry per window, in order; times are virtual seconds."""

    first: Floats  # when its first record left its source
    last: Floats  # when its last record was done
    merged: Floats  # when its results had left the merge stage
    latency_sum: Floats
    latency_max: Floats
    latencies: Ints  # [window, bucket]; see `BUCKETS_PER_OCTAVE`
    queues: Ints  # [window, worker]: records that waited as the window ended


class Clock:
    """The queues of all workers in virtual time.

    Records come with their workers, window by window. They wait here until every source has
    further records: only then is it known which one is next.
    """

    def __init__(
        self,
        timing: Timing,
        *,
        n_sources: int,
        window: int,
        capacities: Floats,
        seed: int,
        forwarding: bool = False,
    ) -> None:
        """Begin at 0, with empty queues."""
        _require_room(timing, n_sources, capacities)
        self.timing = timing
        self._window = window
        self._n_sources = n_sources
        self._n_workers = capacities.size
        self._n_records = 0
        self._rules = Rules(
            arrivals=queueing.ARRIVALS.index(timing.arrivals),
            gap=n_sources / timing.rate if timing.rate else 0.0,
            emit=timing.emit,
            pending=timing.pending,
            exponential=timing.spread == "exponential",
            seed=seed_array(seed, 1)[0],
        )
        self.queues = _empty_queues(timing, self._rules, n_sources, capacities)
        self._restart_sources()
        self._times = no_times(0)
        self._batch = zeros(Batch, 0, head=np.arange(n_sources), end=1)
        self._held = HeldKeys()
        self._parked = Parked(np.zeros(1, under_way.PARKED), np.zeros(1, np.int64))
        self._waiting: list[Ints] = []
        self._merging = MergeStage(timing, forwarding=forwarding) if timing.merge else None
        self._merged: list[float] = []

    @property
    def now(self) -> float:
        """The time up to which everything is known."""
        return float(self.queues.due.min())

    def add(self, keys: Keys, workers: Workers, weights: Floats | None) -> None:
        """Add these records, all of one window, after those before."""
        if not keys.size:
            return
        window = self._n_records // self._window
        self._begin_window(window)
        costs = np.full(keys.size, self.timing.service)
        if weights is not None:
            costs *= weights
        until = self._held.until(keys)
        windows = np.full(keys.size, window)
        self._batch = with_records(self._batch, workers, costs, windows, until)
        self._n_records += keys.size
        if self._merging is not None:
            self._merging.add(window, keys, workers)
        if until.any():
            n_held = int(np.count_nonzero(self._batch.until[: self._batch.end[0]]))
            self._parked = under_way.with_room(self._parked, n_held)
        self._advance(to_the_end=False)
        if self._n_records % self._window == 0:
            self._end_window()
            self._close_windows(whole=window + 1)

    def finish(self) -> WindowTimes:
        """Process what is left, and return the times of all windows."""
        self._advance(to_the_end=True)
        if self._n_records % self._window:
            self._end_window()
        n_windows = -(-self._n_records // self._window)
        self._close_windows(whole=n_windows, final=True)
        times = self._times
        return WindowTimes(
            first=times.first[:n_windows],
            last=times.last[:n_windows],
            merged=np.array(self._merged) if self._merging else times.last[:n_windows].copy(),
            latency_sum=times.latency_sum[:n_windows],
            latency_max=times.latency_max[:n_windows],
            latencies=times.latencies[:n_windows],
            queues=np.array(self._waiting, np.int64).reshape(n_windows, self._n_workers),
        )

    def hold(self, keys: Keys, until: Floats) -> None:
        """Keep records of these keys at their sources until the times given."""
        self._held.hold(keys, until, self.now)

    def merge_only(self, keys: Keys) -> None:
        """Merge only these keys of the window that has just ended; all other results are final."""
        if self._merging is not None:
            self._merging.merge_only(self._n_records // self._window - 1, keys)

    def seconds_per_record(self) -> Floats:
        """Measure the seconds per record of each worker since the last call; NaN if it had none."""
        served, busy = self.queues.served, self.queues.busy
        measured: Floats = np.full(busy.size, np.nan)
        np.divide(busy, served, out=measured, where=served > 0)
        served[:] = 0
        busy[:] = 0
        return measured

    def _advance(self, *, to_the_end: bool) -> None:
        queueing.advance(
            self.queues, self._batch, self._parked, self._times, self._rules, to_the_end
        )
        if to_the_end:
            self._restart_sources()

    def _restart_sources(self) -> None:
        """Let all sources take part again, the one that is due first in front."""
        self.queues.heap[:] = np.argsort(self.queues.due, kind="stable")
        self.queues.n_heap[0] = self._n_sources

    def _begin_window(self, window: int) -> None:
        """Make room for a window, and set the time before which none of its records may leave."""
        room = self._times.done.size
        if window >= room:
            pairs = zip(self._times, no_times(max(room, 64)), strict=True)
            self._times = Times(*(np.concatenate(pair) for pair in pairs))
        earlier = window - self.timing.unmerged
        if self._merging is None or not self.timing.unmerged or earlier < 0:
            return
        if len(self._merged) <= earlier:  # only then does the merge stage decide what comes next
            self._advance(to_the_end=True)
            self._close_windows(whole=window)
        self._times.gate[window] = self._merged[earlier]

    def _end_window(self) -> None:
        """Count the records that wait for each worker now, without those in service."""
        self._waiting.append((self.queues.begun > self.now).sum(axis=1))

    def _close_windows(self, *, whole: int, final: bool = False) -> None:
        """Merge the results of the first windows, as far as all their records are done."""
        if self._merging is None:
            return
        for window in range(len(self._merged), whole):
            size = min(self._n_records - window * self._window, self._window)
            if self._times.done[window] < size or not (final or self._merging.knows(window)):
                return
            self._merged.append(self._merging.close(window, float(self._times.last[window])))


def _empty_queues(timing: Timing, rules: Rules, n_sources: int, capacities: Floats) -> Queues:
    n_workers = capacities.size
    queues = zeros(
        Queues,
        n_workers,
        capacities=capacities.copy(),
        begun=np.full((n_workers, timing.queue), -np.inf),
        due=n_sources,
        heap=np.arange(n_sources, dtype=np.int32),
        n_heap=np.array([n_sources]),
        emitted=n_sources,
        arrived=n_sources,
        under_way=np.zeros((n_sources, max(timing.pending, 1))),
        n_under_way=n_sources,
    )
    for source in range(n_sources):
        queues.arrived[source] = queueing.next_arrival(queues, rules, source, n_sources)
    queues.due[:] = queues.arrived
    return queues


def _require_room(timing: Timing, n_sources: int, capacities: Floats) -> None:
    """Raise ValueError where queues do not fit into memory, or times into numbers."""
    n_workers = capacities.size
    n_times = n_workers * (timing.queue + 1) + n_sources * timing.pending
    what = f"timing: queues of {timing.queue:,} records for {n_workers:,} workers"
    if timing.pending:
        what += f", and {timing.pending:,} records under way for {n_sources:,} sources,"
    require_memory(8 * n_times, what)
    slowest = float(capacities[capacities > 0].min())
    if timing.service / slowest > LONGEST_SECONDS:
        raise ValueError(
            f"capacities: a record would take {timing.service / slowest:.3g} seconds with the "
            f"capacity {slowest:.3g}; the limit is {LONGEST_SECONDS:,.0f}"
        )
