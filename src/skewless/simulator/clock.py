"""Virtual time of a simulation: hands routed records to the queues, and keeps what is measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skewless.arrays import Floats, Ints, Keys, Workers
from skewless.kernels.hashing import seed_array
from skewless.simulator import queueing
from skewless.simulator.held_keys import HeldKeys
from skewless.simulator.merge_stage import MergeStage
from skewless.simulator.queueing import Queues, Rules, Times
from skewless.simulator.routed import (
    Routed,
    by_source,
    no_batch,
    nothing_parked,
    room_to_park,
)
from skewless.simulator.timing import Timing


@dataclass(frozen=True)
class WindowTimes:
    """One entry per window, in order; times are virtual seconds."""

    first: Floats  # when its first record left its source
    last: Floats  # when its last record was done
    merged: Floats  # when its results had left the merge stage
    latency_sum: Floats
    latency_max: Floats
    latencies: Ints  # [window, bucket]; see `latency_bounds`
    queues: Ints  # [window, worker]: records that waited as the window ended


def latency_bounds() -> Floats:
    """Return the lower bound of each bucket of latencies, in seconds."""
    octaves = np.arange(queueing.N_BUCKETS) / queueing.BUCKETS_PER_OCTAVE
    bounds: Floats = queueing.SHORTEST * 2.0**octaves
    return bounds


def latency_quantile(latencies: Ints, share: float) -> float:
    """Return the latency that a share of the records does not exceed, from their buckets.

    It is the middle of its bucket, so it errs by at most 4.5 %, up to latencies of three days.
    """
    counts = latencies if latencies.ndim == 1 else latencies.sum(axis=0)
    total = int(counts.sum())
    if not total:
        return 0.0
    bucket = int(np.searchsorted(np.cumsum(counts), share * total))
    half = 2.0 ** (0.5 / queueing.BUCKETS_PER_OCTAVE)
    return float(latency_bounds()[bucket] * half)


class Clock:
    """The queues of all workers in virtual time.

    Records come with their workers, window by window. They wait here until every source has
    further records: only then is it known which one is next.
    """

    def __init__(
        self, timing: Timing, *, n_sources: int, window: int, capacities: Floats, seed: int
    ) -> None:
        """Begin at 0, with empty queues."""
        self.timing = timing
        self._window = window
        self._n_sources = n_sources
        self._n_workers = capacities.size
        self._n_records = 0
        self._rules = _rules(timing, n_sources, seed)
        self._queues = _empty_queues(timing, self._rules, n_sources, capacities)
        self._restart_sources()
        self._times = _no_times(0)
        self._batch = no_batch(n_sources)
        self._held = HeldKeys()
        self._parked = nothing_parked()
        self._waiting: list[Ints] = []
        self._merging = MergeStage(timing) if timing.merge else None
        self._merged: list[float] = []

    @property
    def now(self) -> float:
        """The time up to which everything is known."""
        return float(self._queues.due.min())

    def add(self, keys: Keys, workers: Workers, weights: Floats | None) -> None:
        """Let these records, all of one window, follow those before."""
        if not keys.size:
            return
        window = self._n_records // self._window
        self._begin_window(window)
        costs = np.full(keys.size, self.timing.service)
        if weights is not None:
            costs *= weights
        numbers = np.arange(self._n_records, self._n_records + keys.size)
        records = Routed(
            workers=workers,
            costs=costs,
            windows=np.full(keys.size, window),
            sources=numbers % self._n_sources,
            until=self._held.until(keys),
        )
        self._n_records += keys.size
        if self._merging is not None:
            self._merging.add(window, keys, workers)
        self._batch = by_source(self._batch, records)
        self._parked = room_to_park(self._parked, self._batch)
        ends = self._n_records % self._window == 0
        self._advance(to_the_end=ends and self.timing.barrier)
        if ends:
            self._end_window()
            self._close_windows(whole=window + 1)

    def finish(self) -> WindowTimes:
        """Process what is left, and return the times of all windows."""
        self._advance(to_the_end=True)
        if self._n_records % self._window:
            self._end_window()
        n_windows = -(-self._n_records // self._window)
        self._close_windows(whole=n_windows)
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

    def set_capacity(self, worker: int, capacity: float) -> None:
        """Let a worker have another speed from the next records on."""
        self._queues.capacities[worker] = capacity

    def stop(self, worker: int, seconds: float) -> None:
        """Let a worker do nothing for some time, after what it has in its queue already."""
        free = self._queues.free[worker]
        free[:] = np.maximum(free, self.now) + seconds

    def hold(self, keys: Keys, until: Floats) -> None:
        """Keep records of these keys at their sources until the times given."""
        self._held.hold(keys, until, self.now)

    def seconds_per_record(self) -> Floats:
        """Return how long a record took each worker since the last call; NaN where none did."""
        served, busy = self._queues.served, self._queues.busy
        measured: Floats = np.full(busy.size, np.nan)
        np.divide(busy, served, out=measured, where=served > 0)
        served[:] = 0
        busy[:] = 0
        return measured

    def waiting(self) -> Ints:
        """Return how many records wait for each worker now."""
        return queueing.waiting(self._queues, self.now)

    def _advance(self, *, to_the_end: bool) -> None:
        queueing.advance(
            self._queues, self._batch, self._parked, self._times, self._rules, to_the_end
        )
        if not to_the_end:
            return
        if self.timing.barrier:
            all_done = float(self._times.last.max(initial=0.0))
            self._queues.due[:] = np.maximum(self._queues.due, all_done + self.timing.batch)
        self._restart_sources()

    def _restart_sources(self) -> None:
        """Let all sources take part again, the one that is due first in front."""
        self._queues.heap[:] = np.argsort(self._queues.due, kind="stable")
        self._queues.n_heap[0] = self._n_sources

    def _begin_window(self, window: int) -> None:
        """Make room for a window, and see before when none of its records may leave."""
        room = self._times.done.size
        if window >= room:
            pairs = zip(self._times, _no_times(max(room, 64)), strict=True)
            self._times = Times(*(np.concatenate(pair) for pair in pairs))
        earlier = window - self.timing.unmerged
        if self._merging is None or not self.timing.unmerged or earlier < 0:
            return
        if len(self._merged) <= earlier:  # only then does the merge stage decide what comes next
            self._advance(to_the_end=True)
            self._close_windows(whole=window)
        self._times.gate[window] = self._merged[earlier]

    def _end_window(self) -> None:
        self._waiting.append(self.waiting())

    def _close_windows(self, *, whole: int) -> None:
        """Merge the results of the first windows, as far as all their records are done."""
        if self._merging is None:
            return
        for window in range(len(self._merged), whole):
            size = min(self._n_records - window * self._window, self._window)
            if self._times.done[window] < size:
                return
            self._merged.append(self._merging.close(window, float(self._times.last[window])))


def _rules(timing: Timing, n_sources: int, seed: int) -> Rules:
    return Rules(
        arrivals=queueing.ARRIVALS.index(timing.arrivals),
        gap=n_sources / timing.rate if timing.rate else 0.0,
        burst=timing.burst,
        emit=timing.emit,
        network=timing.network,
        pending=timing.pending,
        exponential=timing.spread == "exponential",
        seed=seed_array(seed, 1)[0],
    )


def _empty_queues(timing: Timing, rules: Rules, n_sources: int, capacities: Floats) -> Queues:
    n_workers = capacities.size
    queues = Queues(
        free=np.zeros((n_workers, timing.threads)),
        capacities=capacities.copy(),
        begun=np.full((n_workers, timing.queue), -np.inf),
        place=np.zeros(n_workers, np.int64),
        busy=np.zeros(n_workers),
        served=np.zeros(n_workers, np.int64),
        due=np.zeros(n_sources),
        heap=np.arange(n_sources, dtype=np.int32),
        n_heap=np.array([n_sources]),
        emitted=np.zeros(n_sources, np.int64),
        arrived=np.zeros(n_sources),
        under_way=np.zeros((n_sources, max(timing.pending, 1))),
        n_under_way=np.zeros(n_sources, np.int64),
    )
    for source in range(n_sources):
        queues.arrived[source] = queueing.next_arrival(queues, rules, source, n_sources)
    queues.due[:] = queues.arrived
    return queues


def _no_times(n_windows: int) -> Times:
    return Times(
        done=np.zeros(n_windows, np.int64),
        first=np.full(n_windows, np.inf),
        last=np.zeros(n_windows),
        latency_sum=np.zeros(n_windows),
        latency_max=np.zeros(n_windows),
        latencies=np.zeros((n_windows, queueing.N_BUCKETS), np.int64),
        gate=np.zeros(n_windows),
    )
