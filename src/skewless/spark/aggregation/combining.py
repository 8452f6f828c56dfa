"""The worker's side: records of one partition become partial results, and a report."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from skewless.aggregations import count
from skewless.keys import hash_keys
from skewless.spark.aggregation.blocks import Packing
from skewless.spark.aggregation.partials import Partials, state_names
from skewless.spark.columns import internal
from skewless.spark.ledger.ledger import Entry
from skewless.spark.routing.router import Router, this_task

_ROWS_AT_ONCE = 1 << 16
_REPORTED_KEYS = 1 << 17  # distinct keys that a report lists; beyond, a sample by hash
_REPORTED_TOP = 5
#: The hidden aggregation that counts records, for the report.
RECORDS = internal("records")


@dataclass(frozen=True)
class Combiner:
    """Combines the records of one task."""

    partials: Partials
    router: Router  # says which ledger, if any, the task reports to
    packing: Packing | None = None

    def combine(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the partial results of all batches."""
        task = this_task()
        ledger = self.router.ledger_of(task)
        partials = self.partials
        if ledger is not None:
            counted = {**partials.aggregations, RECORDS: count()}
            partials = replace(partials, aggregations=counted)
        seconds, n_records = 0.0, 0
        merged = partials.table_schema.empty_table()
        n_rows = _ROWS_AT_ONCE if partials.merges else sys.maxsize
        for records in chunks(batches, partials.schema, n_rows):
            begin = time.perf_counter()
            n_records += records.num_rows
            # Merging with what there is keeps one row per key, however long the task runs.
            merged = partials.merge([merged, partials.update(records)])
            seconds += time.perf_counter() - begin
        if ledger is not None:
            report = _report(partials, merged, n_records, seconds)
            ledger.write_worker(int(task.batch or 0), task.partition, report)
        table = merged.select(self.partials.table_schema.names)
        yield from self.packing.pack(table) if self.packing else table.to_batches(_ROWS_AT_ONCE)


def chunks(batches: Iterator[pa.RecordBatch], schema: pa.Schema, n_rows: int) -> Iterator[pa.Table]:
    """Yield the batches as tables of at least `n_rows` rows, the last one perhaps of fewer.

    Columns go by their place; on the way they have other names than in `schema`.
    """

    def table() -> pa.Table:
        return pa.Table.from_batches(waiting).rename_columns(schema.names).cast(schema)

    waiting: list[pa.RecordBatch] = []
    n_waiting = 0
    for batch in batches:
        waiting.append(batch)
        n_waiting += batch.num_rows
        if n_waiting >= n_rows:
            yield table()
            waiting, n_waiting = [], 0
    if n_waiting:
        yield table()


def _report(partials: Partials, table: pa.Table, n_records: int, seconds: float) -> Entry:
    """Return what the worker tells: how much it did, with which keys, and the heaviest of them."""
    about: dict[str, Any] = {"records": n_records, "seconds": seconds, "pairs": 0, "top": []}
    keys = hash_keys(*[table.column(name) for name in partials.key])
    distinct, first, positions = np.unique(keys, return_index=True, return_inverse=True)
    counts = np.zeros(distinct.size, np.int64)
    np.add.at(counts, positions, table.column(state_names(RECORDS, 1)[0]).to_numpy())
    about["pairs"] = int(distinct.size)
    heaviest = np.lexsort((distinct, -counts))[:_REPORTED_TOP]
    for place in heaviest.tolist():
        row = int(first[place])
        text = ", ".join(_text(table.column(name)[row]) for name in partials.key)
        about["top"].append([text[:80], int(counts[place]), int(distinct[place])])
    # All workers leave out the same keys, so the sample still tells how many replicas a key has.
    share = 0
    while distinct.size > _REPORTED_KEYS:
        share += 1
        distinct = distinct[distinct < (1 << (64 - share))]
    about["sampled_by"] = 1 << share
    return Entry({"keys": distinct}, about)


def _text(value: Any) -> str:
    """Return one part of a key as text."""
    try:
        found = value.as_py()
    except (OverflowError, ValueError):  # a time beyond Python's dates
        if not pa.types.is_temporal(value.type):
            return f"a {value.type} that Python cannot hold"
        found = value.cast(pa.string()).as_py()
    return "null" if found is None else str(found)
