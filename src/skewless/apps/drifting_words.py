"""The stream of the main job: the same words each time, with hot words that change."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skewless.workloads import ShiftingZipf

#: The columns of words, as Spark spells a schema.
SCHEMA = "ts timestamp, word string"
#: How often the hot words are drawn: not a multiple of the micro-batches of the main job, or they
#: would only change between micro-batches.
N_PERIODS = 5
#: When the stream begins: 2026-01-01 00:00 UTC, in microseconds.
_BEGIN_US = 1_767_225_600_000_000
_SECONDS = 360
_N_WORDS, _Z = 20_000, 1.4


def write_words(
    folder: Path, n_records: int, *, n_batches: int, n_files: int, seed: int = 0
) -> None:
    """Write a stream of words into a new folder, which Spark orders by the times of its files.

    It is cut into micro-batches of `n_files` files, each for another source, and lasts six minutes
    of event time. The hot words change four times. The same seed makes the same files.
    """
    folder.mkdir(parents=True)
    period = -(-n_records // N_PERIODS)
    stream = ShiftingZipf(z_min=_Z, z_max=_Z, n_keys=_N_WORDS, n_records=n_records, period=period)
    ranks = next(stream.ranks(seed, n_records))
    times = np.arange(n_records) * _SECONDS * 1_000_000 // n_records + _BEGIN_US
    for number in range(n_batches * n_files):
        batch, source = divmod(number, n_files)
        end = n_records * (batch + 1) // n_batches
        mine = slice(n_records * batch // n_batches + source, end, n_files)
        words = pc.binary_join_element_wise("w", pa.array(ranks[mine]).cast(pa.string()), "")
        moments = pa.array(times[mine], pa.timestamp("us", "UTC"))
        path = folder / f"batch-{batch:04}-{source:02}.parquet"
        pq.write_table(pa.table({"ts": moments, "word": words}), path)
        written = _BEGIN_US // 1_000_000 + number
        os.utime(path, (written, written))
