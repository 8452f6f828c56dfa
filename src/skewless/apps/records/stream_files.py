"""Writes records as the files of a stream, which Spark reads in order."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

#: When generated streams begin: 2026-01-01 00:00 UTC, in microseconds.
BEGIN_US = 1_767_225_600_000_000


def event_times(n_records: int, seconds: int, begin: int = 0, end: int | None = None) -> pa.Array:
    """Return the times of records that are evenly spread over `seconds`, or of a part of them.

    >>> event_times(4, 8, 1, 3).to_numpy() - np.datetime64("2026-01-01")
    array([2000000, 4000000], dtype='timedelta64[us]')
    """
    numbers = np.arange(begin, n_records if end is None else end)
    times = numbers * seconds * 1_000_000 // n_records + BEGIN_US
    return pa.array(times, pa.timestamp("us", "UTC"))


def write_stream_pieces(
    pieces: Iterable[pa.Table], n_records: int, folder: Path, n_batches: int, n_files: int
) -> None:
    """Write micro-batches of `n_files` files, which Spark orders by their modification time.

    Of the tables, which follow each other and have `n_records` rows together, one is in memory.
    """
    folder.mkdir(parents=True)
    waiting = iter(pieces)
    piece = next(waiting)
    ends = [n_records * (i + 1) // n_batches for i in range(n_batches)]
    for batch, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        paths = [folder / f"batch-{batch:04}-{number:02}.parquet" for number in range(n_files)]
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(pq.ParquetWriter(path, piece.schema)) for path in paths]
            done = begin
            while done < end:
                piece = piece if piece.num_rows else next(waiting)
                records = piece.slice(0, end - done)
                for number, file in enumerate(files):
                    first = (number - (done - begin)) % n_files
                    mine = pa.array(np.arange(first, records.num_rows, n_files))
                    file.write_table(records.take(mine))
                done += records.num_rows
                piece = piece.slice(records.num_rows)
        for number, path in enumerate(paths):
            moment = BEGIN_US // 1_000_000 + batch * n_files + number
            os.utime(path, (moment, moment))
