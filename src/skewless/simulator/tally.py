"""Turns routed records into counts, per window and overall."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skewless.arrays import Floats, Ints, Keys, Workers
from skewless.simulator.replicas import ReplicaCounter


@dataclass(frozen=True)
class Windows:
    """One entry per window of the stream, in order; the last one may be shorter than the others."""

    records: Ints
    peaks: Floats  # max over workers of load / capacity
    keys: Ints
    pairs: Ints


class Tally:
    """Counts loads, keys and replicas of a stream of routed records, cut into windows."""

    def __init__(self, n_workers: int, window: int, capacities: Floats, max_pairs: int) -> None:
        """Count nothing yet."""
        self.loads = np.zeros(n_workers, np.int64)
        self.replicas = ReplicaCounter(max_pairs)
        self._window = window
        self._capacities = capacities
        self._window_loads = np.zeros(n_workers, np.int64)
        self._window_records = 0
        self._window_replicas = ReplicaCounter(max_pairs)
        self._rows: list[tuple[int, float, int, int]] = []

    @property
    def room(self) -> int:
        """How many records the current window still takes."""
        return self._window - self._window_records

    def add(self, keys: Keys, workers: Workers) -> None:
        """Count these records, which may span any number of windows."""
        self.replicas.add(keys, workers)
        begin = 0
        while begin < keys.size:
            end = min(keys.size, begin + self.room)
            self._window_loads += np.bincount(workers[begin:end], minlength=self.loads.size)
            self._window_replicas.add(keys[begin:end], workers[begin:end])
            self._window_records += end - begin
            if self.room == 0:
                self._close_window()
            begin = end

    def _close_window(self) -> None:
        peak = float((self._window_loads / self._capacities).max())
        self._rows.append((self._window_records, peak, *self._window_replicas.counts()))
        self.loads += self._window_loads
        self._window_loads[:] = 0
        self._window_records = 0
        self._window_replicas.clear()

    def finish(self) -> Windows:
        """Close the last window and return all of them."""
        if self._window_records:
            self._close_window()
        columns = list(zip(*self._rows, strict=True)) or [(), (), (), ()]
        return Windows(
            np.array(columns[0], np.int64),
            np.array(columns[1], np.float64),
            np.array(columns[2], np.int64),
            np.array(columns[3], np.int64),
        )
