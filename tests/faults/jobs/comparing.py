"""Reading what queries wrote, and comparing it with plain Spark."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from faults.jobs.operators import COLUMNS
from faults.jobs.starting import N_BATCHES

_EPOCH = datetime(1970, 1, 1)  # Spark writes times without a zone; all are in UTC
RECORDS = ("k", "v")
CHAINED = ("k", "n", "sum")
#: The rows of each micro-batch.
Batches = dict[int, Counter[tuple[Any, ...]]]
_THIRD = {"blocks": "spread", "native": "distinct", "variance": "variance"}


def assert_like_plain(folder: Path, one: dict[str, Any], records: Path, plain: Path) -> None:
    """Fail unless a query wrote what plain Spark did, whose folders are in `plain`.

    Chains are compared with plain Python, and operators with a run without faults.
    """
    assert_done(folder)
    if one["merging"] == "state":
        wanted = as_cut(chained(records), ends_of(folder))
        assert_same_batches(batches_of(folder, CHAINED), wanted, one["name"])
        return
    if one["merging"] in COLUMNS:
        columns = COLUMNS[one["merging"]]
        calm = batches_of(plain / one["merging"], columns)
        assert_same_batches(batches_of(folder, columns), calm, one["name"])
        return
    if one["merging"] == "none":
        wanted = as_cut(batches_of_records(records), ends_of(folder))
        assert_same_batches(batches_of(folder, RECORDS), wanted, one["name"])
        return
    columns = (*(["window"] if one["windows"] else []), "k", "n", "s", _THIRD[one["merging"]])
    expected = plain / plain_name(one)
    if one["mode"] == "append":
        rows = committed_rows(expected, columns)
        assert rows, one
        assert_same_rows(committed_rows(folder, columns), rows, one["name"])
        return
    n_key = columns.index("k") + 1
    wanted = as_cut(batches_of(expected, columns), ends_of(folder), n_key)
    assert_same_batches(batches_of(folder, columns), wanted, one["name"])


def ends_of(folder: Path) -> list[int]:
    """Return, for each micro-batch of a query, the last entry of the file source's log in it.

    Usually they are 0, 1, 2 … A driver that is killed between writing that log and writing its
    offsets leaves an entry that no micro-batch has: Spark then takes two entries in one.
    """
    logs = [path for path in (folder / "checkpoint" / "offsets").iterdir() if path.name.isdigit()]
    lasts = [path.read_text().splitlines()[-1] for path in sorted(logs, key=lambda p: int(p.name))]
    return [int(json.loads(last)["logOffset"]) for last in lasts]


def as_cut(batches: Batches, ends: Sequence[int], n_key: int | None = None) -> Batches:
    """Return the rows of `batches` for micro-batches that end with these batches.

    With `n_key`, rows are updates, and the last one of the first `n_key` columns counts. If no
    entry was skipped, nothing changes; an end that is there twice is a micro-batch without data.
    """
    if set(ends) == set(range(max(ends) + 1)):
        return batches
    found: Batches = {}
    first = 0
    for number, end in enumerate(ends):
        parts = [batches[batch] for batch in range(first, end + 1)]
        if n_key is None:
            found[number] = sum(parts, Counter())
        else:
            last = {row[:n_key]: row for part in parts for row in part.elements()}
            found[number] = Counter(last.values())
        first = end + 1
    return found


def assert_same_batches(found: Batches, wanted: Batches, name: str) -> None:
    """Fail unless each micro-batch has the same rows."""
    assert sorted(found) == sorted(wanted), name
    for batch, rows in wanted.items():
        assert_same_rows(found[batch], rows, f"{name}, batch {batch}")


def chained(records: Path, *, by_time: bool = True) -> Batches:
    """Compute the results of `Chain` for each micro-batch, by plain Python.

    Otherwise than by time, records are in source order: Spark numbers files by size, the largest
    first, each a source of its own.
    """
    files = sorted(records.glob("*.parquet"))
    states: dict[Any, tuple[int, int]] = {}
    found = {}
    for batch in range(N_BATCHES):
        sources = sorted(files[2 * batch : 2 * batch + 2], key=lambda file: -file.stat().st_size)
        whole = pa.concat_tables([pq.ParquetFile(file).read() for file in sources])
        if by_time:
            whole = whole.sort_by([("ts", "ascending"), ("v", "ascending")])
        rows: Counter[tuple[Any, ...]] = Counter()
        for record in whole.to_pylist():
            n, total = states.get(record["k"], (0, 0))
            states[record["k"]] = n + 1, zlib.crc32(f"{total} {record['v']}".encode())
            rows[(record["k"], *states[record["k"]])] += 1
        found[batch] = rows
    return found


def plain_name(one: dict[str, Any]) -> str:
    """Return the name of the query of plain Spark to compare with."""
    return {
        (False, "update"): "plain",
        (True, "append"): "plain_windows",
        (True, "update"): "plain_windows_update",
    }[one["windows"], one["mode"]]


def assert_same_rows(found: Counter[Any], wanted: Counter[Any], where: str) -> None:
    """Fail with a few rows of the difference instead of all."""
    missing, surplus = wanted - found, found - wanted
    assert found == wanted, (
        f"{where}: of {wanted.total()} rows {missing.total()} are missing and "
        f"{surplus.total()} are too many; "
        f"missing {list(missing)[:3]}, too many {list(surplus)[:3]}"
    )


def assert_done(folder: Path) -> None:
    """Fail with the query's own words unless it ended well."""
    failed = folder / "failed"
    assert (folder / "done").exists(), failed.read_text()[:3000] if failed.exists() else "no end"


def batches_of_records(records: Path) -> dict[int, Counter[tuple[Any, ...]]]:
    """Return the key and value of the records themselves for each micro-batch."""
    files = sorted(records.glob("*.parquet"))
    return {n: _rows(files[2 * n : 2 * n + 2], ("k", "v")) for n in range(N_BATCHES)}


def batches_of(folder: Path, columns: Sequence[str]) -> dict[int, Counter[tuple[Any, ...]]]:
    """Return the rows that the sink wrote for each micro-batch."""
    return {
        int(path.name.partition("=")[2]): _rows(sorted(path.glob("*.parquet")), columns)
        for path in sorted((folder / "out").glob("batch=*"))
    }


def committed_rows(folder: Path, columns: Sequence[str]) -> Counter[tuple[Any, ...]]:
    """Return the rows in the files that Spark's file sink has committed."""
    files = set()
    for log in (folder / "out" / "_spark_metadata").iterdir():
        if log.name.isdecimal():
            entries = [json.loads(line) for line in log.read_text().splitlines()[1:]]
            files |= {entry["path"].removeprefix("file://") for entry in entries}
    return _rows([Path(file) for file in sorted(files)], columns)


def n_late(folder: Path, records: Path) -> int:
    """Count the records that came too late for windows that were written."""
    rows = committed_rows(folder, ("window", "n"))
    counted = sum(row[1] * times for row, times in rows.items())
    first = {row[0][0] for row in rows}
    size = next(row[0][1] - row[0][0] for row in rows)
    n_all = 0
    for file in sorted(records.glob("*.parquet")):
        times = pq.ParquetFile(file).read(["ts"]).column("ts").cast("timestamp[us]").to_pylist()
        n_all += sum(time - (time - _EPOCH) % size in first for time in times)
    return n_all - counted


def _rows(files: Sequence[Path], columns: Sequence[str]) -> Counter[tuple[Any, ...]]:
    rows: Counter[tuple[Any, ...]] = Counter()
    for file in files:
        table = pq.ParquetFile(file).read(list(columns))
        for row in table.to_pylist():
            rows[tuple(_plain(row[column]) for column in columns)] += 1
    return rows


def _plain(value: Any) -> Any:
    return tuple(value.values()) if isinstance(value, dict) else value
