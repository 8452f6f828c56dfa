"""Times the user's own function on records, run after run, without Spark.

A run has a set-up, such as opening a connection, and each batch may have a fixed cost. So a run of
one record is timed first, and its time is subtracted from the longer runs. These have batches as
large as Spark's, or smaller ones if the work is slow.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pyarrow as pa

#: A function as `mapInArrow` takes it.
Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

#: Seconds; neither of the long runs takes much longer.
PATIENCE_S = 10.0
#: Runs of one record; the median of their times counts.
N_ALONE = 3
#: Records that estimate the time of a key before many keys are timed.
N_PROBED = 10
#: With fewer records that each have their own key, the cost of a key is not known.
LEAST_LIGHT = 4
#: A run of few keys has at least this many records, unless patience ends, and at most this many
#: batches, records and bytes.
_LEAST_RECORDS, _MOST_BATCHES, _MOST_RECORDS, _MOST_BYTES = 2_000, 5, 50_000, 1 << 26
_SMALL_BATCH = 50


class Times(NamedTuple):
    """The seconds and records of the long runs, minus those of a run of one record.

    Parameters
    ----------
    many_records, many_seconds
        Of the run in which each record has another key.
    few_records, few_seconds
        Of the run with few keys, whose records are repeated.
    differs
        By how many seconds runs of one record differ: smaller differences are noise.
    """

    many_records: int
    many_seconds: float
    few_records: int
    few_seconds: float
    differs: float


def time_work(work: Work, light: pa.Table, heavy: pa.Table, batch_size: int) -> Times:
    """Return the times of `work`.

    Parameters
    ----------
    work
        The function.
    light
        Records with different keys. Each is used in one run only: a function may keep what it has
        loaded for a key.
    heavy
        Records of few keys, none of which is in `light`.
    batch_size
        Records that Spark hands to the function at a time.
    """
    if not heavy.num_rows:
        return Times(0, 0.0, 0, 0.0, 0.0)
    if light.num_rows < LEAST_LIGHT:
        light = light.slice(0, 0)
    size = min(batch_size, _MOST_RECORDS)
    single = light if light.num_rows else heavy.slice(0, 1)
    _timed(work, single.slice(0, 1), 1)  # imports and compilation do not count
    n_alone = N_ALONE if light.num_rows >= 2 * N_PROBED else 1
    alone: list[float] = []
    for number in range(1, 1 + n_alone):
        alone.append(_timed(work, single.slice(min(number, single.num_rows - 1), 1), 1))
        if sum(alone) > PATIENCE_S:
            break
    set_up, differs = statistics.median(alone), max(alone) - min(alone)
    each = set_up  # of a record with its key: no more than that
    many = light.slice(1 + n_alone)
    if many.num_rows > 2 * N_PROBED:
        each = max(0.0, _timed(work, many.slice(0, N_PROBED), size) - set_up) / (N_PROBED - 1)
        many = many.slice(N_PROBED)
    if each > 0.0:
        many = many.slice(0, max(2, int(PATIENCE_S / each)))
    many_records, many_seconds = 0, 0.0
    if many.num_rows > 1:
        many_records = many.num_rows - 1
        many_seconds = max(0.0, _timed(work, many, size) - set_up)
        each = many_seconds / many_records
    given, seconds = _timed_for_a_while(work, heavy, size, each)
    return Times(many_records, many_seconds, given - 1, max(0.0, seconds - set_up), differs)


def _timed(work: Work, table: pa.Table, batch_size: int) -> float:
    """Return how long `work` takes on a table."""
    batches = table.combine_chunks().to_batches(max_chunksize=batch_size)
    begin = time.perf_counter()
    for _ in work(iter(batches)):
        pass
    return time.perf_counter() - begin


def _timed_for_a_while(
    work: Work, table: pa.Table, batch_size: int, each: float
) -> tuple[int, float]:
    """Return how many records were given to `work`, and how long it took.

    The records of the table are repeated until there are enough. `each` is the most seconds that a
    record is expected to take. It bounds the records that a function gets if it reads all batches
    before it begins.
    """
    most = _MOST_RECORDS
    most = min(most, max(table.num_rows, _MOST_BYTES * table.num_rows // max(1, table.nbytes)))
    if each > 0.0:
        most = min(most, max(_LEAST_RECORDS, int(PATIENCE_S / each)))
    repeated = pa.concat_tables([table] * -(-most // table.num_rows))
    given, outside = 0, 0.0

    def some() -> Iterator[pa.RecordBatch]:
        nonlocal given, outside
        size = _batch_size(PATIENCE_S / 4, each, batch_size)
        for _ in range(_MOST_BATCHES):
            asked = time.perf_counter()
            size = min(size, most - given)
            batches = repeated.slice(given, size).combine_chunks().to_batches()
            given += size
            outside += time.perf_counter() - asked
            handed = time.perf_counter()
            yield from batches
            now = time.perf_counter()
            left = PATIENCE_S - (now - begin)
            if left <= 0.0 or given >= most:
                return
            size = _batch_size(left, (now - handed) / size, batch_size)

    begin = time.perf_counter()
    for _ in work(some()):
        pass
    return given, time.perf_counter() - begin - outside


def _batch_size(seconds: float, each: float, most: int) -> int:
    """Return how many records to give at once, if a record takes `each` seconds.

    >>> _batch_size(10.0, 0.01, 10_000), _batch_size(10.0, 0.0, 10_000), _batch_size(1.0, 1.0, 20)
    (1000, 10000, 20)
    """
    return most if each * most <= seconds else min(most, max(_SMALL_BATCH, int(seconds / each)))
