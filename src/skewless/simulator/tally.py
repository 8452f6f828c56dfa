"""Turns routed records into counts, per window and overall: loads, keys and replicas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from skewless.arrays import I32, I64, U64, Bytes, Floats, Ints, Keys, Workers
from skewless.kernels.distinct import add as add_distinct
from skewless.kernels.distinct import estimate as estimate_distinct
from skewless.kernels.distinct import registers
from skewless.kernels.hashing import GOLDEN, mix
from skewless.kernels.key_table import ABSENT, KeyTable, clear, find_slot, key_table, put
from skewless.plumbing.compiling import kernel
from skewless.simulator.starting import Measuring

N_KEYS, N_EXTRA = 0, 1
_FIRST_SIZE = 1 << 12
_PRECISION = 16  # 65,536 registers: standard error 0.4 %


class Replicas(NamedTuple):
    """Every key with its first worker, and every further pair.

    Most keys stay on one worker: nearly always one look-up per record.
    """

    first: KeyTable  # key -> the worker that got its first record
    extra: KeyTable  # pair -> 0
    counts: Ints


def _empty(n_keys: int, n_extra: int) -> Replicas:
    return Replicas(key_table(n_keys), key_table(n_extra), np.zeros(2, np.int64))


@kernel
def pair(key: U64, worker: I32) -> U64:
    """Return one 64-bit name for a key on a worker.

    Two of 10⁸ pairs share a name with a probability below 0.1 %, and then one replica of 10⁸ is
    not counted.
    """
    return mix(key ^ mix(np.uint64(worker) + GOLDEN))


@kernel
def _add(replicas: Replicas, key: U64, worker: I32) -> None:
    slot = find_slot(replicas.first, key)
    first = replicas.first.values[slot]
    if first == worker:
        return
    if first == ABSENT:
        replicas.first.keys[slot] = key
        replicas.first.values[slot] = worker
        replicas.counts[N_KEYS] += 1
        return
    name = pair(key, worker)
    slot = find_slot(replicas.extra, name)
    if replicas.extra.values[slot] == ABSENT:
        replicas.extra.keys[slot] = name
        replicas.extra.values[slot] = 0
        replicas.counts[N_EXTRA] += 1


@kernel
def _add_while_room(replicas: Replicas, keys: Keys, workers: Workers, begin: I64) -> I64:
    """Add records from `begin` on; return where the tables are half full, or the end."""
    most_keys = replicas.first.keys.size // 2
    most_extra = replicas.extra.keys.size // 2
    for i in range(begin, keys.size):
        if replicas.counts[N_KEYS] >= most_keys or replicas.counts[N_EXTRA] >= most_extra:
            return i
        _add(replicas, keys[i], workers[i])
    return keys.size


@kernel
def _copy_table(old: KeyTable, new: KeyTable) -> None:
    for slot in range(old.keys.size):
        if old.values[slot] != ABSENT:
            put(new, old.keys[slot], old.values[slot])


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
        self._replicas = _empty(_FIRST_SIZE, _FIRST_SIZE)
        self._sketches: tuple[Bytes, Bytes] | None = None

    @property
    def exact(self) -> bool:
        """Whether the counts are exact."""
        return self._sketches is None

    def add(self, keys: Keys, workers: Workers) -> None:
        """Count these records."""
        begin = 0
        while self._sketches is None and begin < keys.size:
            begin = _add_while_room(self._replicas, keys, workers, begin)
            if begin < keys.size:
                self._make_room()
        if self._sketches is not None:
            _add_estimated(keys[begin:], workers[begin:], *self._sketches)

    def _make_room(self) -> None:
        counts = self._replicas.counts
        if counts.sum() >= self.max_pairs:
            self._sketches = registers(_PRECISION), registers(_PRECISION)
            first, extra, _ = self._replicas
            used = first.values != ABSENT
            _add_estimated(first.keys[used], first.values[used], *self._sketches)
            _add_names(extra.keys[extra.values != ABSENT], self._sketches[1])
            self._replicas = _empty(1, 1)
            return
        tables = []
        for table, count in zip(self._replicas[:2], counts, strict=True):
            if 2 * count >= table.keys.size:
                larger = key_table(2 * int(count))
                _copy_table(table, larger)
                tables.append(larger)
            else:
                tables.append(table)
        self._replicas = Replicas(tables[0], tables[1], counts)

    def counts(self) -> tuple[int, int]:
        """Return the number of distinct keys and of distinct (key, worker) pairs."""
        if self._sketches is not None:
            n_keys, n_pairs = (round(float(estimate_distinct(r))) for r in self._sketches)
            return n_keys, max(n_keys, n_pairs)
        n_keys, n_extra = (int(count) for count in self._replicas.counts)
        return n_keys, n_keys + n_extra

    def clear(self) -> None:
        """Begin again with nothing counted; the tables keep their size."""
        self._sketches = None
        self._replicas.counts[:] = 0
        clear(self._replicas.first)
        clear(self._replicas.extra)


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
