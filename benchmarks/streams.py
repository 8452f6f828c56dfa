"""What benchmarks read: keys in memory, real streams in a folder, and Parquet files for Spark."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from skewless.arrays import Keys
from skewless.workloads import Zipf

#: Keys of a stream "Hot 0.25" that take this part of its records.
N_HOT = 5
_FIRST_S = 1_767_225_600  # 2026-01-01 00:00 UTC


def zipf_keys(z: float, n_keys: int, n_records: int, seed: int = 0) -> Keys:
    """Return the key hashes of a Zipf stream."""
    return np.concatenate(list(Zipf(z=z, n_keys=n_keys, n_records=n_records).chunks(seed)))


def write_files(folder: Path, tables: Iterable[pa.Table], rows: int | None = None) -> Path:
    """Write one file per table, with so many rows in a group; return the folder.

    Spark takes files in the order of their times of modification.
    """
    folder.mkdir(parents=True)
    for number, table in enumerate(tables):
        path = folder / f"{number:06}.parquet"
        pq.write_table(table, path, row_group_size=rows)
        os.utime(path, (_FIRST_S + number, _FIRST_S + number))
    return folder


def cut(table: pa.Table, n: int) -> Iterator[pa.Table]:
    """Yield `n` parts of a table, of equal size but for the last."""
    size = -(-table.num_rows // n)
    return (table.slice(number * size, size) for number in range(n))


def stream_table(
    name: str, n_records: int, n_keys: int, columns: int, data: Path | None
) -> pa.Table | None:
    """Return a stream by name, "Zipf 1.4" or that of a file in `data`; None: there is none.

    "Hot 0.25" is skewed as JCC-H skews the references of TPC-H: a few keys take this part of all
    records, and the others come evenly. A stream has the key, two numbers with exact sums of
    products, and so many further columns.
    """
    kind, _, number = name.partition(" ")
    if kind == "Zipf":
        keys: Any = pa.array(zipf_keys(float(number), n_keys, n_records).astype(str))
    elif kind == "Hot":
        draws = np.random.default_rng(0)
        is_hot = draws.random(n_records) < float(number)
        hot, others = (draws.integers(*ends, n_records) for ends in ((0, N_HOT), (N_HOT, n_keys)))
        keys = np.where(is_hot, hot, others).astype(str)
    elif data is None or not (file := data / f"{name}.parquet").exists():
        return None
    else:
        keys = pq.read_table(file, columns=["key"]).slice(0, n_records).column("key")
    rng, n = np.random.default_rng(1), len(keys)
    numbers = {"x": rng.integers(0, 4_000, n) / 4, "w": rng.integers(1, 100, n) * 1.0}
    more = {f"c{place}": np.arange(n) * (place + 1) for place in range(columns)}
    return pa.table({"key": keys, **numbers, **more})
