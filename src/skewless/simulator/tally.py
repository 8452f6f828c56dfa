"""Turns routed records into counts, per window and overall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import Floats, Ints, Keys, Workers
from skewless.simulator.replicas import ReplicaCounter
from skewless.simulator.starting import Measuring


@dataclass(frozen=True)
class Windows:
    """One entry per window of the stream, in order; the last one may be shorter than the others."""

    records: Ints
    costs: Floats  # total weight of the records; their number if they have no weights
    peaks: Floats  # max over workers of load / capacity
    capacity: Floats  # of all workers together, as the window ended
    keys: Ints
    pairs: Ints
    loads: Floats | None  # [window, worker], where they are kept


class Tally:
    """Counts loads, keys and replicas of a stream of routed records, cut into windows."""

    def __init__(
        self,
        n_workers: int,
        window: int,
        capacities: Floats,
        measuring: Measuring,
        *,
        weighted: bool = False,
    ) -> None:
        """Count nothing yet; loads are records, or what they cost where they are weighted."""
        self.weighted = weighted
        self.loads: NDArray[Any] = np.zeros(n_workers, np.float64 if weighted else np.int64)
        self.replicas = ReplicaCounter(measuring.max_pairs)
        self.window = window
        self.capacities = capacities.copy()  # may change, from the current window on
        self._kept: list[Floats] | None = [] if measuring.keep_loads else None
        self._capacity_sums = np.zeros(n_workers)  # over windows, by their records
        self._window_loads = np.zeros_like(self.loads)
        self._window_records = 0
        self._window_replicas = ReplicaCounter(measuring.max_pairs)
        self._rows: list[tuple[int, float, float, float, int, int]] = []

    @property
    def room(self) -> int:
        """How many records the current window still takes."""
        return self.window - self._window_records

    @property
    def mean_capacities(self) -> Floats:
        """The speeds of the workers, as they were for the mean record of the complete windows."""
        total = self._capacity_sums.sum()
        if not total:
            return np.array(self.capacities)
        mean: Floats = self._capacity_sums / total * self.loads.size
        return mean

    def add(self, keys: Keys, workers: Workers, weights: Floats | None = None) -> None:
        """Count these records, which may span any number of windows."""
        self.replicas.add(keys, workers)
        begin = 0
        while begin < keys.size:
            end = min(keys.size, begin + self.room)
            part = slice(begin, end)
            costs = None if weights is None else weights[part]
            self._window_loads += np.bincount(workers[part], costs, self.loads.size)
            self._window_replicas.add(keys[part], workers[part])
            self._window_records += end - begin
            if self.room == 0:
                self._close_window()
            begin = end

    def _close_window(self) -> None:
        there = self.capacities > 0  # a worker that has just left is no measure
        peak = float((self._window_loads[there] / self.capacities[there]).max())
        cost = float(self._window_loads.sum())
        capacity = float(self.capacities.sum())
        self._capacity_sums += self._window_records * self.capacities
        counts = self._window_replicas.counts()
        self._rows.append((self._window_records, cost, peak, capacity, *counts))
        self.loads += self._window_loads
        if self._kept is not None:
            self._kept.append(self._window_loads.astype(np.float64))
        self._window_loads[:] = 0
        self._window_records = 0
        self._window_replicas.clear()

    def finish(self) -> Windows:
        """Close the last window and return all of them."""
        if self._window_records:
            self._close_window()
        columns = list(zip(*self._rows, strict=True)) or [()] * 6
        loads = None
        if self._kept is not None:
            loads = np.array(self._kept).reshape(len(self._kept), self.loads.size)
        kinds = ("i8", "f8", "f8", "f8", "i8", "i8")
        arrays: list[Any] = [np.array(c, kind) for c, kind in zip(columns, kinds, strict=True)]
        records, costs, peaks, capacity, keys, pairs = arrays
        return Windows(records, costs, peaks, capacity, keys, pairs, loads)
