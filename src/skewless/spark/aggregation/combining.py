"""The worker's side: records of one partition become partial results, and a report."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from skewless.aggregations import count
from skewless.arrays import Keys
from skewless.keys import hash_keys
from skewless.spark.aggregation.partials import Packing, Partials, state_names
from skewless.spark.aggregation.whole_keys import WholeKeys
from skewless.spark.columns import internal
from skewless.spark.key_texts import ListedKey, key_text
from skewless.spark.ledger.ledger import Entry
from skewless.spark.ledger.names import WORKERS, report_name
from skewless.spark.routing.query_ledger import QueryLedger, this_task

#: Records that are grouped at a time. With more, fewer partial results of a key must be merged. A
#: task holds about three times as many bytes: the records, sorted by key, and their results.
_ROWS_AT_ONCE = 1 << 22
_BYTES_AT_ONCE = 1 << 26
_ROWS_PER_BATCH = 1 << 16
_REPORTED_KEYS = 1 << 17  # distinct keys that a report lists; beyond, a sample by hash
_REPORTED_TOP = 10  # keys that a report lists with their text
_REPORTED_COUNTS = 1 << 12  # keys that it lists with their records, the heaviest
#: The hidden aggregation that counts records, for the report.
RECORDS = internal("records")


@dataclass(frozen=True)
class Combiner:
    """Combines the records of one task."""

    partials: Partials
    query: QueryLedger | None = None  # finds the ledger that the task reports to
    packing: Packing | None = None
    claim: QueryLedger | None = None  # on the ledger of a stream that routes nothing
    finishes: bool = False  # all records of a key are in this task
    whole: WholeKeys | None = None  # finishes those keys of which that is true

    def combine(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the partial results of all batches, or the results if they are complete."""
        task = this_task()
        if self.claim is not None:
            self.claim.claimed(task)
        ledger = None if self.query is None else self.query.ledger_of(task)
        partials = self.partials
        if ledger is not None:
            counted = {**partials.aggregations, RECORDS: count()}
            partials = replace(partials, aggregations=counted)
        split: list[Keys] = []
        if self.whole is not None:
            batches = self.whole.records(batches, split)
        merged, n_records, seconds = combined(batches, partials)
        if ledger is not None:
            report = _report(partials, merged, n_records, seconds)
            name = report_name(WORKERS, int(task.batch or 0), ledger.run, task.partition)
            ledger.publish(name, report)  # that of the first attempt counts
        table = merged.select(self.partials.table_schema.names)
        if self.whole is not None:
            table = self.whole.finished(table, split)
        elif self.finishes:
            table = self.partials.finish(table)
        yield from self.packing.pack(table) if self.packing else table.to_batches(_ROWS_PER_BATCH)


def combined(batches: Iterator[pa.RecordBatch], partials: Partials) -> tuple[pa.Table, int, float]:
    """Return one row per key of all batches, the number of records, and the seconds spent.

    Memory is bounded by a chunk of records and twice the rows of the result. Partial results are
    merged when there are as many of them as keys. So each is merged about twice, for any number of
    chunks.
    """
    seconds, n_records, n_waiting = 0.0, 0, 0
    merged = partials.table_schema.empty_table()
    waiting: list[pa.Table] = []
    limits = (_ROWS_AT_ONCE, _BYTES_AT_ONCE) if partials.merges else (sys.maxsize, sys.maxsize)
    for records in chunks(batches, partials.schema, *limits):
        begin = time.perf_counter()
        n_records += records.num_rows
        waiting.append(partials.update(records))
        n_waiting += waiting[-1].num_rows
        if n_waiting >= merged.num_rows:
            merged, waiting, n_waiting = partials.merge([merged, *waiting]), [], 0
        seconds += time.perf_counter() - begin
    if waiting:
        begin = time.perf_counter()
        merged = partials.merge([merged, *waiting])
        seconds += time.perf_counter() - begin
    return merged, n_records, seconds


def chunks(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, n_rows: int, n_bytes: int = sys.maxsize
) -> Iterator[pa.Table]:
    """Yield the batches as tables of at least `n_rows` rows or `n_bytes`, but for the last one.

    Columns are matched by position: in the batches they have other names than in `schema`.
    """

    def table() -> pa.Table:
        return pa.Table.from_batches(waiting).rename_columns(schema.names).cast(schema)

    waiting: list[pa.RecordBatch] = []
    n_waiting = bytes_waiting = 0
    for batch in batches:
        waiting.append(batch)
        n_waiting += batch.num_rows
        bytes_waiting += batch.nbytes
        if n_waiting >= n_rows or bytes_waiting >= n_bytes:
            yield table()
            waiting, n_waiting, bytes_waiting = [], 0, 0
    if n_waiting:
        yield table()


def _report(partials: Partials, table: pa.Table, n_records: int, seconds: float) -> Entry:
    """Return the report of the worker: its records, seconds, keys, and the heaviest keys."""
    keys = hash_keys(*[table.column(name) for name in partials.key])
    distinct, first, positions = np.unique(keys, return_index=True, return_inverse=True)
    counts = np.zeros(distinct.size, np.int64)
    np.add.at(counts, positions, table.column(state_names(RECORDS, 1)[0]).to_numpy())
    n_pairs = int(distinct.size)
    heaviest = np.lexsort((distinct, -counts))[:_REPORTED_COUNTS]
    counted = {"counted": distinct[heaviest], "counted_records": counts[heaviest]}
    top = []
    for place in heaviest[:_REPORTED_TOP].tolist():
        text = key_text(table.column(name)[int(first[place])] for name in partials.key)
        top.append(ListedKey(text, int(counts[place]), int(distinct[place])).as_json())
    # All workers leave out the same keys, so the sample still shows how many replicas a key has.
    share = 0
    while distinct.size > _REPORTED_KEYS:
        share += 1
        distinct = distinct[distinct < (1 << (64 - share))]
    about = {"records": n_records, "seconds": seconds, "pairs": n_pairs, "top": top}
    return Entry({"keys": distinct, **counted}, {**about, "sampled_by": 1 << share})
