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
from faults.jobs.starting import N_BATCHES, Job, query

_EPOCH = datetime(1970, 1, 1)  # Spark writes times without a zone; all are in UTC
RECORDS = ("k", "v")
CHAINED = ("k", "n", "sum")
#: The rows of each micro-batch.
Batches = dict[int, Counter[tuple[Any, ...]]]
_THIRD = {"blocks": "spread", "native": "distinct", "variance": "variance"}


def assert_like_plain(folder: Path, one: dict[str, Any], records: Path, plain: Path) -> None:
    """Fail unless a query wrote what plain Spark did, whose folders are in `plain`.

    Chains are compared with plain Python, and operators with a run without faults. All read the
    stream in the same micro-batches.
    """
    assert_done(folder)
    name, ends = one["name"], sorted(set(ends_of(folder)))
    if one["merging"] == "state":
        assert_same_batches(batches_with_data(folder, CHAINED), chained(records, ends), name)
    elif one["merging"] == "none":
        wanted = batches_of_records(records, ends)
        assert_same_batches(batches_with_data(folder, RECORDS), wanted, name)
    elif one["merging"] in COLUMNS:
        assert_same_output(folder, calm_of(one, ends, records, plain), COLUMNS[one["merging"]])
    else:
        columns = (*(["window"] if one["windows"] else []), "k", "n", "s", _THIRD[one["merging"]])
        expected = calm_of(one, ends, records, plain)
        if one["mode"] == "update":
            assert_same_output(folder, expected, columns)
        else:
            rows = committed_rows(expected, columns)
            assert rows, one
            assert_same_rows(committed_rows(folder, columns), rows, name)


def assert_same_output(folder: Path, calm: Path, columns: Sequence[str]) -> None:
    """Fail unless the micro-batches of two queries have the same rows."""
    wanted = batches_with_data(calm, columns)
    assert_same_batches(batches_with_data(folder, columns), wanted, folder.name)


def calm_of(one: dict[str, Any], ends: Sequence[int], records: Path, plain: Path) -> Path:
    """Return the folder of a query without faults that reads the stream in these micro-batches.

    Usually it is there. Where Spark took two entries in one micro-batch, records come together that
    were apart: other ones are late, and chains have another order.
    """
    name = one["merging"] if one["merging"] in COLUMNS else plain_name(one)
    if list(ends) == list(range(N_BATCHES)):
        return plain / name
    strategy = "wanders" if one["merging"] in COLUMNS else "plain"
    same = {key: one[key] for key in ("merging", "windows", "mode")}
    steps = [["run", end + 1, {"files": 2 * N_BATCHES}] for end in ends]
    calm = query("-".join([name, *map(str, ends)]), strategy, steps=steps, **same)
    job = Job(plain, records, [calm])
    assert job.wait() == 0, job.log()
    assert_done(plain / calm["name"])
    return plain / calm["name"]


def ends_of(folder: Path) -> list[int]:
    """Return, for each micro-batch of a query, the last entry of the file source's log in it.

    Usually they are 0, 1, 2 … A driver that is killed between writing that log and writing its
    offsets leaves an entry that no micro-batch has: Spark then takes two entries in one. A
    micro-batch without data has the end of the one before.
    """
    logs = [path for path in (folder / "checkpoint" / "offsets").iterdir() if path.name.isdigit()]
    lasts = [path.read_text().splitlines()[-1] for path in sorted(logs, key=lambda p: int(p.name))]
    return [int(json.loads(last)["logOffset"]) for last in lasts]


def batches_with_data(folder: Path, columns: Sequence[str]) -> Batches:
    """Return what the sink wrote by micro-batch; those that read nothing belong to the one before.

    They are numbered anew, so that two queries can be compared.
    """
    ends = ends_of(folder)
    numbers = {end: number for number, end in enumerate(sorted(set(ends)))}
    found: Batches = {}
    for batch, rows in batches_of(folder, columns).items():
        number = numbers[ends[batch]]
        found[number] = found.get(number, Counter()) + rows
    return found


def cut(records: Path, ends: Sequence[int]) -> list[list[Path]]:
    """Return the files of each micro-batch, if micro-batches end with these entries of the log."""
    files = sorted(records.glob("*.parquet"))
    begins = [0, *(end + 1 for end in ends)]
    return [files[2 * begin : 2 * (end + 1)] for begin, end in zip(begins, ends, strict=False)]


def assert_same_batches(found: Batches, wanted: Batches, name: str) -> None:
    """Fail unless each micro-batch has the same rows."""
    assert sorted(found) == sorted(wanted), name
    for batch, rows in wanted.items():
        assert_same_rows(found[batch], rows, f"{name}, batch {batch}")


def chained(
    records: Path, ends: Sequence[int] = range(N_BATCHES), *, by_time: bool = True
) -> Batches:
    """Compute the results of `Chain` for each micro-batch, by plain Python.

    Otherwise than by time, records are in source order: Spark numbers files by size, the largest
    first, each a source of its own.
    """
    states: dict[Any, tuple[int, int]] = {}
    found = {}
    for batch, files in enumerate(cut(records, ends)):
        sources = sorted(files, key=lambda file: -file.stat().st_size)
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


def batches_of_records(records: Path, ends: Sequence[int] = range(N_BATCHES)) -> Batches:
    """Return the key and value of the records themselves for each micro-batch."""
    return {number: _rows(files, RECORDS) for number, files in enumerate(cut(records, ends))}


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
