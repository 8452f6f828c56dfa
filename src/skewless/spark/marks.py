"""Marks: before a shuffle, a source tells the home of a key that it sends the key elsewhere.

Each record gets a list of numbers, and one copy of it is sent for each number. The number modulo n
is the copy's partition:

- w, from 0 to n − 1: the record goes to worker w, which is the home of its key;
- w + n: it goes to worker w, which is not the home;
- h − n: this copy is a mark, and no record. It tells worker h, the home, that the key is split.

A worker that has no mark of a key, and no record sent off its home, has all records of the key.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skewless.arrays import I64, Keys, SmallInts, Workers, read_only
from skewless.plumbing.compiling import kernel

#: Keys that a source remembers to have told, one for each value of the lower bits. A key that
#: another one has replaced is told again, which is harmless: the table bounds the memory.
_REMEMBERED = 1 << 16


def none_told() -> Keys:
    """Return the memory of a source that has told nothing: every slot has a key of another one."""
    told: Keys = np.arange(_REMEMBERED, dtype=np.uint64) ^ np.uint64(1)
    return told


@kernel
def _mark(
    keys: Keys,
    workers: Workers,
    homes: Workers,
    n_workers: I64,
    told: Keys,
    begins: SmallInts,
    numbers: SmallInts,
) -> I64:
    """Fill `numbers` with the lists of all records, and `begins` with where each of them begins."""
    n = 0
    for i in range(keys.size):
        begins[i] = n
        numbers[n] = workers[i]
        n += 1
        if workers[i] != homes[i]:
            numbers[n - 1] += n_workers
            slot = np.int64(keys[i] & np.uint64(told.size - 1))
            if told[slot] != keys[i]:
                told[slot] = keys[i]
                numbers[n] = homes[i] - n_workers
                n += 1
    begins[keys.size] = n
    return n


def marked(keys: Keys, workers: Workers, homes: Workers, n_workers: int, told: Keys) -> Any:
    """Return the list of each record; `told` is updated.

    >>> keys, at = np.array([5, 5, 6], np.uint64), np.array([0, 1, 1], np.int32)
    >>> marked(keys, at, np.zeros(3, np.int32), 4, none_told()).to_pylist()
    [[0], [5, -4], [5, -4]]
    """
    begins = np.empty(keys.size + 1, np.int32)
    numbers = np.empty(2 * keys.size, np.int32)
    n = _mark(read_only(keys), workers, homes, n_workers, told, begins, numbers)
    return pa.ListArray.from_arrays(pa.array(begins), pa.array(numbers[:n]))
