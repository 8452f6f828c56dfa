"""A table as the files of a stream, which Spark reads in their order."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

#: When generated streams begin: 2026-01-01 00:00 UTC, in microseconds.
BEGIN_US = 1_767_225_600_000_000


def event_times(n_records: int, seconds: int) -> pa.Array:
    """Return the times of records that come evenly in so many seconds."""
    times = np.arange(n_records) * seconds * 1_000_000 // n_records + BEGIN_US
    return pa.array(times, pa.timestamp("us", "UTC"))


def write_stream_files(table: pa.Table, folder: Path, n_batches: int, n_files: int) -> None:
    """Write a table as micro-batches of `n_files` files; Spark orders them by modification time."""
    folder.mkdir(parents=True)
    ends = [table.num_rows * (i + 1) // n_batches for i in range(n_batches)]
    for batch, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        records = table.slice(begin, end - begin)
        for number in range(n_files):
            mine = pa.array(np.arange(number, records.num_rows, n_files))
            path = folder / f"batch-{batch:04}-{number:02}.parquet"
            pq.write_table(records.take(mine), path)
            moment = BEGIN_US // 1_000_000 + batch * n_files + number
            os.utime(path, (moment, moment))
