"""Counts distinct keys and distinct (key, worker) pairs of a stream, exactly while memory allows.

Most keys stay on one worker, so the table holds each key with its first worker, and only further
replicas go into a second table: nearly always one look-up per record.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skewless.arrays import I32, I64, U64, Bytes, Ints, Keys, Workers
from skewless.kernels.distinct import add as add_distinct
from skewless.kernels.distinct import estimate as estimate_distinct
from skewless.kernels.distinct import registers
from skewless.kernels.hashing import GOLDEN, mix
from skewless.kernels.key_table import ABSENT, KeyTable, clear, find_slot, key_table
from skewless.plumbing.compiling import kernel

N_KEYS, N_EXTRA = 0, 1
_FIRST_SIZE = 1 << 12
_PRECISION = 16  # 65,536 registers: standard error 0.4 %


class Replicas(NamedTuple):
    """Every key with its first worker, and every further pair."""

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
            place = find_slot(new, old.keys[slot])
            new.keys[place] = old.keys[slot]
            new.values[place] = old.values[slot]


@kernel
def _estimate_from(replicas: Replicas, keys: Bytes, pairs: Bytes) -> None:
    for slot in range(replicas.first.keys.size):
        if replicas.first.values[slot] != ABSENT:
            key = replicas.first.keys[slot]
            add_distinct(keys, mix(key))
            add_distinct(pairs, pair(key, replicas.first.values[slot]))
    for slot in range(replicas.extra.keys.size):
        if replicas.extra.values[slot] != ABSENT:
            add_distinct(pairs, replicas.extra.keys[slot])


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
            _estimate_from(self._replicas, *self._sketches)
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
