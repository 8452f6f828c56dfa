"""What it costs to count keys, as a number of memory accesses that depends on no machine.

The paper's Figures 10a and 10b are times: a table of many keys misses the cache, a sketch does
not. Here every place that the real tables of our Dalton touch goes through a model of a cache.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from benchmarks.records import Row
from experiments.reproduction.figure import cell
from skewless import registry, workloads
from skewless.arrays import I64, Ints, Keys
from skewless.kernels.key_table import ABSENT, find_slot
from skewless.plumbing.compiling import kernel
from skewless.state import state_bytes
from skewless.strategies.dalton.key_counts import (
    KeyCounts,
    count,
    exact_counts,
    forget_counts,
    hybrid_counts,
    sketched_counts,
)

#: Lines of 64 bytes: 256 KiB, the second-level cache of the paper's processors.
CACHE_LINES = 4096
#: What an access that misses the cache costs, in accesses that do not.
MISS = 10

# Positions in `Cache.counts`.
_ACCESSES, _MISSES, _SKETCHED = 0, 1, 2


class Cache(NamedTuple):
    """A direct-mapped cache: which line each place holds."""

    lines: Ints
    counts: Ints


@kernel
def _touch(cache: Cache, line: I64) -> None:
    place = line % cache.lines.size
    cache.counts[_ACCESSES] += 1
    if cache.lines[place] != line:
        cache.lines[place] = line
        cache.counts[_MISSES] += 1


@kernel
def _count_all(keys: Keys, counts: KeyCounts, stats_window: I64, cache: Cache) -> None:
    """Count the keys, window by window, and send what is touched through the cache.

    The lines of the table's keys, of its values and of the sketch follow each other in memory.
    """
    values_from = counts.table.keys.size // 8 + 1
    sketch_from = values_from + counts.table.values.size // 16 + 1
    n_columns = counts.sketch.cells.shape[1]
    for i in range(keys.size):
        if i > 0 and i % stats_window == 0:
            forget_counts(counts)
        sketched = counts.counters[0]["sketches"] == 1
        if not sketched:
            slot = find_slot(counts.table, keys[i])
            _touch(cache, slot // 8)
            _touch(cache, values_from + slot // 16)
            is_new = counts.table.values[slot] == ABSENT
            sketched = is_new and counts.counters[0]["in_table"] >= counts.counters[0]["room"]
        count(counts, keys[i])
        if sketched and counts.sketch.cells.shape[0] > 0:
            cache.counts[_SKETCHED] += 1
            for row in range(counts.sketch.cells.shape[0]):
                cell = row * n_columns + counts.sketch.columns[row]
                _touch(cache, sketch_from + cell // 8)


@cell
def counted(
    statistics: Literal["exact", "count-min", "hybrid", "cascade"],
    stats_window: int,
    z: float = 0.0,
    n_keys: int = 100_000,
    n_records: int = 1_000_000,
    n_workers: int = 56,
    exact_keys: int = 5_000,
    seed: int = 1,
) -> Row:
    """Counts a Zipf stream with one of Dalton's statistics, or says how large Cascade's are.

    `statistics` is as the parameter of Dalton; cascade: bytes only. `stats_window` is STATS_WIN, in
    records.
    """
    if statistics == "cascade":
        state = registry.make("cascade").start(n_workers, seed)
        return {"bytes": state_bytes(state)}
    epsilon, delta = 1 / (8 * n_workers), 0.05
    room = min(stats_window, n_keys)  # a table has room for the keys that there are
    if statistics == "count-min":
        counts = sketched_counts(epsilon, delta, seed)
    elif statistics == "hybrid" and exact_keys < room:
        counts = hybrid_counts(exact_keys, epsilon, delta, seed)
    else:
        counts = exact_counts(room)
    stream = workloads.make("zipf", z=z, n_keys=n_keys, n_records=n_records)
    keys = np.concatenate(list(stream.chunks(seed)))
    cache = Cache(np.full(CACHE_LINES, -1, np.int64), np.zeros(3, np.int64))
    _count_all(keys, counts, stats_window, cache)
    accesses, misses, sketched = (int(number) for number in cache.counts)
    return {
        "bytes": state_bytes(counts),
        "accesses": accesses / n_records,
        "misses": misses / n_records,
        "cost": (accesses + (MISS - 1) * misses) / n_records,
        "sketched": sketched / n_records,
    }
