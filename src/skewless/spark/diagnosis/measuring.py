"""Measures what the user's own function costs per record and per key, on a small sample.

The function runs in one Spark task, first on records of many keys, one each, then on many records
of few keys. Two equations give the two costs. No key is in both runs, because a function that loads
something for each key may keep it. `timing_work` explains how set-up is excluded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skewless.diagnosis.costs import Costs
from skewless.spark.arrow_types import from_arrow_schema
from skewless.spark.columns import internal
from skewless.spark.diagnosis.timing_work import LEAST_LIGHT, Times, Work, time_work
from skewless.spark.worker_python import require_skewless

_GROUP = internal("group")
_KINDS = (pa.int64(), pa.float64(), pa.int64(), pa.float64(), pa.float64())
_TIMES = pa.schema(list(zip(Times._fields, _KINDS, strict=True)))
_MEASURED_KEYS = 220
_MEASURED_RECORDS = 2_000
_N_HEAVY = 5


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
    timed = payload.coalesce(1).mapInArrow(_timed(work, batch_size), from_arrow_schema(_TIMES))
    times = Times(**timed.collect()[0].asDict())
    return costs_of(times, heavy.column(_GROUP))


def costs_of(times: Times, keys: pa.ChunkedArray) -> Costs:
    """Return the costs from the times; `keys` are those of the records of few keys, in order."""
    # The run of one record, which is subtracted already, had a key too.
    n_keys = max(0, pc.count_distinct(keys.slice(0, times.few_records + 1)).as_py() - 1)
    return solve(
        (times.many_records, times.many_seconds),
        (times.few_records, times.few_seconds),
        n_few_keys=n_keys,
        differs=times.differs,
    )


def solve(
    many_keys: tuple[int, float],
    few_keys: tuple[int, float],
    *,
    n_few_keys: int,
    differs: float = 0.0,
) -> Costs:
    """Return the costs from the records and seconds of both groups.

    If the second group has a key for every record, or the first group is empty, all cost counts as
    cost per record. If the keys of the first group together cost less than the difference between
    equal runs, the cost per key is 0.

    >>> solve((100, 1.01), (1_000, 0.11), n_few_keys=1)
    Costs(per_record=0.0001, per_pair=0.01, measured=True)
    """
    records, seconds = few_keys
    if not many_keys[0] or records <= n_few_keys:
        total = many_keys[0] + records
        each = (many_keys[1] + seconds) / total if total else 0.0
        return Costs(float(f"{each:.3g}"), 0.0, measured=True)
    both = many_keys[1] / many_keys[0]  # one record and one key
    per_record = max(0.0, (seconds - n_few_keys * both) / (records - n_few_keys))
    per_pair = max(0.0, both - per_record)
    if per_pair * many_keys[0] <= differs:
        per_pair = 0.0
    return Costs(float(f"{per_record:.3g}"), float(f"{per_pair:.3g}"), measured=True)


def _bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _timed(work: Work, batch_size: int) -> Any:
    """Return a function for `mapInArrow` that times `work` on the tables of each row."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                light, heavy = (pa.ipc.open_stream(row[name]).read_all() for name in row)
                times = time_work(work, light, heavy, batch_size)
                yield pa.RecordBatch.from_pylist([times._asdict()], _TIMES)

    return run
