"""Measures what the user's own function costs per record and per key, on a small sample.

The function runs twice in one task of Spark, on keys that differ: first on records of many keys,
one each, then on many records of few keys. Two equations give the two costs. The keys differ
because a function that loads something for each key may keep it. One record comes before both, so
that imports and compilation do not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skewless.arguments import shown
from skewless.spark.columns import internal
from skewless.spark.diagnosis.costs import Costs

#: A function as `mapInArrow` takes it.
Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_GROUP = internal("group")
_TIMES = pa.schema([("group", pa.int32()), ("records", pa.int64()), ("seconds", pa.float64())])
_WARM, _MANY_KEYS, _FEW_KEYS = 0, 1, 2
_MEASURED_KEYS = 200
_MEASURED_RECORDS = 2_000
#: The function is measured no longer than that for each of the groups, and then extrapolated.
_PATIENCE_S = 10.0
_CHUNK = 50


def measure(df: DataFrame, key_hash: Column, work: Work) -> Costs:
    """Return the costs of `work`, by running it on some hundred records of `df`."""
    if not callable(work):
        raise ValueError(f"work must be a function as mapInArrow takes it, not {shown(work)}")
    hashed = df.withColumn(_GROUP, key_hash)
    few = hashed.groupBy(_GROUP).count().orderBy(F.desc("count")).limit(5)
    heavy = [row[_GROUP] for row in few.collect()]
    is_heavy = F.col(_GROUP).isin(heavy)
    many = hashed.where(~is_heavy).dropDuplicates([_GROUP]).limit(_MEASURED_KEYS)
    groups = [
        hashed.limit(1).withColumn(_GROUP, F.lit(_WARM)),
        many.withColumn(_GROUP, F.lit(_MANY_KEYS)),
        hashed.where(is_heavy).limit(_MEASURED_RECORDS).withColumn(_GROUP, F.lit(_FEW_KEYS)),
    ]
    tables = [_bytes(group.drop(_GROUP).toArrow()) for group in groups]
    payload = df.sparkSession.createDataFrame(list(enumerate(tables)), "group int, table binary")
    timed = payload.coalesce(1).mapInArrow(_timed(work), "group int, records long, seconds double")
    times = {row["group"]: (row["records"], row["seconds"]) for row in timed.collect()}
    return solve(times[_MANY_KEYS], times[_FEW_KEYS], n_few_keys=len(heavy))


def solve(many_keys: tuple[int, float], few_keys: tuple[int, float], *, n_few_keys: int) -> Costs:
    """Return the costs from the records and seconds of both groups.

    Where the second group has a key for every record, or there is no first one, all cost is the
    records'.

    >>> solve((100, 1.01), (1_000, 0.11), n_few_keys=1)
    Costs(per_record=0.0001, per_pair=0.01, measured=True)
    """
    records, seconds = few_keys
    if not many_keys[0] or records <= n_few_keys:
        total = many_keys[0] + records
        each = (many_keys[1] + seconds) / total if total else 0.0
        return Costs(each, 0.0, measured=True)
    both = many_keys[1] / many_keys[0]  # one record and one key
    per_record = max(0.0, (seconds - n_few_keys * both) / (records - n_few_keys))
    per_record = min(per_record, both)
    return Costs(float(f"{per_record:.3g}"), float(f"{both - per_record:.3g}"), measured=True)


def _bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _timed(work: Work) -> Any:
    """Return a function for `mapInArrow` that runs `work` on each table and tells the time."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                table = pa.ipc.open_stream(row["table"]).read_all()
                records, seconds = _run_for_a_while(work, table)
                yield pa.RecordBatch.from_pylist(
                    [{"group": row["group"], "records": records, "seconds": seconds}], _TIMES
                )

    return run


def _run_for_a_while(work: Work, table: pa.Table) -> tuple[int, float]:
    """Return how many records were given to `work`, and how long it took."""
    given = 0

    def some() -> Iterator[pa.RecordBatch]:
        nonlocal given
        for chunk in table.to_batches(max_chunksize=_CHUNK):
            if given and time.perf_counter() - begin > _PATIENCE_S:
                return
            given += chunk.num_rows
            yield chunk

    begin = time.perf_counter()
    for _ in work(some()):
        pass
    return given, time.perf_counter() - begin
