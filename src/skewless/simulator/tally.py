"""Turns routed records into counts, per window and overall: loads, keys and replicas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import I32, I64, U64, Bytes, Floats, Ints, Keys, Workers
from skewless.kernels.distinct import add as add_distinct
from skewless.kernels.distinct import estimate as estimate_distinct
from skewless.kernels.distinct import registers
from skewless.kernels.hashing import GOLDEN, mix
from skewless.kernels.key_table import ABSENT, KeyTable, clear, find_slot, key_table, put_all
from skewless.plumbing.compiling import kernel
from skewless.simulator.starting import Measuring

_FIRST_SIZE = 1 << 12
_PRECISION = 16  # 65,536 registers: standard error 0.4 %


@kernel
def pair(key: U64, worker: I32) -> U64:
    """Return one 64-bit name for a key on a worker.

    Two of 10⁸ pairs share a name with a probability below 0.1 %, and then one replica of 10⁸ is
    not counted.
    """
    return mix(key ^ mix(np.uint64(worker) + GOLDEN))


@kernel
def _add_while_room(
    first: KeyTable, extra: KeyTable, counts: Ints, keys: Keys, workers: Workers, begin: I64
) -> I64:
    """Add records from `begin` on; return where a table is half full, or the end.

    Most keys stay on one worker: nearly always one look-up per record.
    """
    for i in range(begin, keys.size):
        if 2 * counts[0] >= first.keys.size or 2 * counts[1] >= extra.keys.size:
            return i
        slot = find_slot(first, keys[i])
        if first.values[slot] == workers[i]:
            continue
        if first.values[slot] == ABSENT:
            first.keys[slot] = keys[i]
            first.values[slot] = workers[i]
            counts[0] += 1
            continue
        name = pair(keys[i], workers[i])
        slot = find_slot(extra, name)
        if extra.values[slot] == ABSENT:
            extra.keys[slot] = name
            extra.values[slot] = 0
            counts[1] += 1
    return keys.size


@kernel
def _add_names(names: Keys, registers: Bytes) -> None:
    for i in range(names.size):
        add_distinct(registers, names[i])


@kernel
def _add_estimated(
    keys: Keys, workers: Workers, key_registers: Bytes, pair_registers: Bytes
) -> None:
    for i in range(keys.size):
        add_distinct(key_registers, mix(keys[i]))
        add_distinct(pair_registers, pair(keys[i], workers[i]))


class ReplicaCounter:
    """Counts distinct keys and pairs.

    Exact up to `max_pairs` pairs (about 24 to 48 bytes each). Beyond that the tables give way to
    two HyperLogLog sketches with 0.4 % standard error, memory stays constant, and `exact` is False.
    """

    def __init__(self, max_pairs: int = 1 << 25) -> None:
        self.max_pairs = max_pairs
        # The first worker of each key, and every further pair of a key and a worker.
        self._tables = [key_table(_FIRST_SIZE), key_table(_FIRST_SIZE)]
        self._counts = np.zeros(2, np.int64)  # keys, further pairs
        self._sketches: tuple[Bytes, Bytes] | None = None

    @property
    def exact(self) -> bool:
        """Whether the counts are exact."""
        return self._sketches is None

    def add(self, keys: Keys, workers: Workers) -> None:
        """Count these records."""
        begin = 0
        while self._sketches is None and begin < keys.size:
            first, extra = self._tables
            begin = _add_while_room(first, extra, self._counts, keys, workers, begin)
            if begin < keys.size:
                self._make_room()
        if self._sketches is not None:
            _add_estimated(keys[begin:], workers[begin:], *self._sketches)

    def _make_room(self) -> None:
        used = [table.values != ABSENT for table in self._tables]
        if self._counts.sum() >= self.max_pairs:
            first, extra = self._tables
            self._sketches = registers(_PRECISION), registers(_PRECISION)
            _add_estimated(first.keys[used[0]], first.values[used[0]], *self._sketches)
            _add_names(extra.keys[used[1]], self._sketches[1])
            self._tables = [key_table(1), key_table(1)]
            return
        for i, table in enumerate(self._tables):
            if 2 * self._counts[i] >= table.keys.size:
                self._tables[i] = key_table(2 * int(self._counts[i]))
                put_all(self._tables[i], table.keys[used[i]], table.values[used[i]])

    def counts(self) -> tuple[int, int]:
        """Return the number of distinct keys and of distinct (key, worker) pairs."""
        if self._sketches is not None:
            n_keys, n_pairs = (round(float(estimate_distinct(r))) for r in self._sketches)
            return n_keys, max(n_keys, n_pairs)
        n_keys, n_extra = self._counts.tolist()
        return n_keys, n_keys + n_extra

    def clear(self) -> None:
        """Begin again with nothing counted; the tables keep their size."""
        self._sketches = None
        self._counts[:] = 0
        for table in self._tables:
            clear(table)


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
        self._rows: list[tuple[Any, ...]] = []

    @property
    def mean_capacities(self) -> Floats:
        """The speeds of the workers, as they were for the mean record of the complete windows."""
        total = float(self._capacity_sums.sum())
        if not total:
            return np.array(self.capacities)
        mean: Floats = self._capacity_sums / total * self.loads.size
        return mean

    def add(self, keys: Keys, workers: Workers, weights: Floats | None = None) -> None:
        """Count these records, which may span any number of windows."""
        self.replicas.add(keys, workers)
        begin = 0
        while begin < keys.size:
            end = min(keys.size, begin + self.window - self._window_records)
            part = slice(begin, end)
            costs = None if weights is None else weights[part]
            self._window_loads += np.bincount(workers[part], costs, self.loads.size)
            self._window_replicas.add(keys[part], workers[part])
            self._window_records += end - begin
            if self._window_records == self.window:
                self._close_window()
            begin = end

    def _close_window(self) -> None:
        loads, capacities = self._window_loads, self.capacities
        there = capacities > 0  # a worker that has just left is no measure
        peak = (loads[there] / capacities[there]).max()
        counts = self._window_replicas.counts()
        self._rows.append((self._window_records, loads.sum(), peak, capacities.sum(), *counts))
        self._capacity_sums += self._window_records * capacities
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
        rows = np.array(self._rows, "i8, f8, f8, f8, i8, i8")
        loads = None
        if self._kept is not None:
            loads = np.array(self._kept).reshape(len(self._kept), self.loads.size)
        columns: list[Any] = [*(rows[name].copy() for name in rows.dtype.names or ()), loads]
        return Windows(*columns)
