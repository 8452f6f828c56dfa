"""Measures what the user's own function costs per record and per key, on a small sample.

The function runs in one Spark task, first on records of many keys, one each, then on many records
of few keys. Two equations give the two costs. No key is in both runs, because a function that loads
something for each key may keep it.

A run has a set-up, such as opening a connection, and each batch may have a fixed cost. So a run of
one record is timed first, and its time is subtracted from the longer runs. These have batches as
large as Spark's, or smaller ones if the work is slow.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skewless.diagnosis.costs import Costs
from skewless.spark.arrow_types import from_arrow_schema
from skewless.spark.columns import internal
from skewless.spark.worker_python import require_skewless

_GROUP = internal("group")
_MEASURED_KEYS = 220
_MEASURED_RECORDS = 2_000
_N_HEAVY = 5
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
    """The seconds and records of the long runs, minus those of a run of one record."""

    many_records: int  # of the run in which each record has another key
    many_seconds: float
    few_records: int  # of the run with few keys, whose records are repeated
    few_seconds: float
    differs: float  # seconds by which runs of one record differ: smaller differences are noise


_KINDS = (pa.int64(), pa.float64(), pa.int64(), pa.float64(), pa.float64())
_TIMES = pa.schema(list(zip(Times._fields, _KINDS, strict=True)))


def time_work(work: Work, light: pa.Table, heavy: pa.Table, batch_size: int) -> Times:
    """Return the times of `work`, to which Spark hands `batch_size` records at a time.

    The records of `light` have different keys. Each is used in one run only: a function may keep
    what it has loaded for a key. `heavy` has records of few keys, none of which is in `light`.
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
        if sum(alone) <= PATIENCE_S:
            alone.append(_timed(work, single.slice(min(number, single.num_rows - 1), 1), 1))
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
    fitting = _MOST_BYTES * table.num_rows // max(1, table.nbytes)
    most = min(_MOST_RECORDS, max(table.num_rows, fitting))
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
            handed = time.perf_counter()
            outside += handed - asked
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


def measure(df: DataFrame, key_hash: Column, work: Work, batch_size: int) -> Costs:
    """Return the costs of `work`, by running it on some thousand records of `df`.

    `batch_size` is the number of records that Spark hands to a function at a time.
    """
    require_skewless(df.sparkSession)
    hashed = df.withColumn(_GROUP, key_hash)
    counts = hashed.groupBy(_GROUP).count().orderBy(F.desc("count"))
    heaviest = [row[_GROUP] for row in counts.limit(_N_HEAVY + LEAST_LIGHT).collect()]
    # If there are few keys, most of them are needed to measure what a key costs.
    chosen = heaviest[: _N_HEAVY if len(heaviest) == _N_HEAVY + LEAST_LIGHT else 1]
    is_heavy = F.col(_GROUP).isin(chosen)
    light = hashed.where(~is_heavy).dropDuplicates([_GROUP]).limit(_MEASURED_KEYS).toArrow()
    heavy = hashed.where(is_heavy).limit(_MEASURED_RECORDS).toArrow()
    tables = [tuple(_bytes(table.drop_columns([_GROUP])) for table in (light, heavy))]
    payload = df.sparkSession.createDataFrame(tables, "light binary, heavy binary")
    timed = payload.coalesce(1).mapInArrow(_timing(work, batch_size), from_arrow_schema(_TIMES))
    times = Times(**timed.collect()[0].asDict())
    return costs_of(times, heavy.column(_GROUP))


def costs_of(times: Times, keys: pa.ChunkedArray) -> Costs:
    """Return the costs from the times; `keys` are those of the records of few keys, in order.

    If the second run has a key for every record, or the first one is empty, all cost counts as cost
    per record. If the keys of the first run together cost less than the difference between equal
    runs, the cost per key is 0.

    >>> costs_of(Times(100, 1.01, 1_000, 0.11, 0.0), pa.chunked_array([[0, 7, *[7] * 999]]))
    Costs(per_record=0.0001, per_pair=0.01, measured=True)
    """
    n_many, many_seconds, n_few, few_seconds, differs = times
    # The run of one record, which is subtracted already, had a key too.
    n_keys = max(0, pc.count_distinct(keys.slice(0, n_few + 1)).as_py() - 1)
    if not n_many or n_few <= n_keys:
        total = n_many + n_few
        each = (many_seconds + few_seconds) / total if total else 0.0
        return Costs(float(f"{each:.3g}"), 0.0, measured=True)
    both = many_seconds / n_many  # one record and one key
    per_record = max(0.0, (few_seconds - n_keys * both) / (n_few - n_keys))
    per_pair = max(0.0, both - per_record)
    if per_pair * n_many <= differs:
        per_pair = 0.0
    return Costs(float(f"{per_record:.3g}"), float(f"{per_pair:.3g}"), measured=True)


def _bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _timing(work: Work, batch_size: int) -> Any:
    """Return a function for `mapInArrow` that times `work` on the tables of each row."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in (row for batch in batches for row in batch.to_pylist()):
            light, heavy = (pa.ipc.open_stream(row[name]).read_all() for name in row)
            times = time_work(work, light, heavy, batch_size)
            yield pa.RecordBatch.from_pylist([times._asdict()], _TIMES)

    return run
