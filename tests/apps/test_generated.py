"""Generated records: all of them, in order, in memory that does not grow with their number."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="the applications need pyspark")

from skewless.apps.records import generated

KINDS = ("trades", "posts", "positions", "flows", "words")


def peak_bytes(kind: str, folder: Path, n_records: int) -> int:
    tracemalloc.start()
    generated.write_generated(kind, folder, n_records)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_memory_does_not_grow_with_the_number_of_records(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generated, "PIECE", 2_000)
    few = peak_bytes(kind, tmp_path / "few", 4_000)
    many = peak_bytes(kind, tmp_path / "many", 40_000)
    assert many < 1.5 * few  # ten times as many records


@pytest.mark.parametrize("kind", KINDS)
def test_pieces_are_one_stream(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated, "PIECE", 300)
    generated.write_generated(kind, tmp_path / "all", 1_003)
    files = sorted((tmp_path / "all").iterdir())
    assert len(files) == generated.N_FILES
    tables = [pq.read_table(file) for file in files]
    assert {table.num_rows for table in tables} <= {125, 126}
    times = pc.sort_indices(pa.concat_tables(tables)["ts"])
    ordered = pa.concat_tables(tables).take(times)["ts"].to_numpy()
    assert len(np.unique(ordered)) == 1_003
    assert ordered[0] == np.datetime64("2026-01-01")
    ends = [(table["ts"][0].as_py(), table["ts"][-1].as_py()) for table in tables]
    assert all(ends[i][1] < ends[i + 2][0] for i in range(len(ends) - 2))  # batches of two files


@pytest.mark.parametrize("sizes", [(10,), (1, 9), (3, 3, 3, 1), (0, 7, 0, 3)])
def test_how_records_are_cut_into_pieces_does_not_matter(
    sizes: tuple[int, ...], tmp_path: Path
) -> None:
    table = pa.table({"n": np.arange(10)})
    starts = np.cumsum((0, *sizes))
    pieces = [table.slice(start, size) for start, size in zip(starts, sizes, strict=False)]
    generated.write_stream_pieces([table], 10, tmp_path / "once", 3, 2)
    generated.write_stream_pieces(pieces, 10, tmp_path / "pieces", 3, 2)
    found = []
    for file in sorted((tmp_path / "once").iterdir()):
        other = tmp_path / "pieces" / file.name
        assert pq.read_table(other).equals(pq.read_table(file))
        assert other.stat().st_mtime == file.stat().st_mtime
        found += pq.read_table(other)["n"].to_pylist()
    assert found == [0, 2, 1, 3, 5, 4, 6, 8, 7, 9]
