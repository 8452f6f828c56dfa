"""Thousands of micro-batches of keyed state in one process, without Spark: nothing grows."""

from __future__ import annotations

import os
import statistics
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skewless.spark import Append, KeyProcessor, scale_to
from skewless.spark.routing.requests import purge_requests
from skewless.spark.state.versions import version_files
from spark.state.chains import BEGIN, SCHEMA, random_moves
from spark.state.without_spark import Query

pytestmark = [pytest.mark.faults, pytest.mark.soak]

N_BATCHES = int(os.environ.get("SKEWLESS_SOAK_BATCHES", "2000"))
N_RECORDS = 200
#: Batches between two numbers of workers. There are as many files as workers write, so both halves
#: must see every number, even in a short try.
SCALED_EVERY = min(25, N_BATCHES // 8)
KEPT = 10
SECOND = 1_000_000
#: Lists that grow for ever fill many such files, so that merging holds no more in the end.
MERGED_BYTES = 1 << 21


class Visits(KeyProcessor):
    """Counts records until none has come for five seconds."""

    state_schema = "n bigint, text string, expires timestamp"
    result_schema = "k string, n bigint"

    def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
        n = (state["n"] if state else 0) + len(records)
        ends = max(record["ts"] for record in records) + timedelta(seconds=5)
        if state:
            ends = max(ends, state["expires"])
        return [], {"n": n, "text": "x" * (n % 50), "expires": ends}

    def expire_key(self, key: Any, state: Any, watermark: Any) -> Any:
        return [{"n": state["n"]}], None


def churning(batch: int) -> pa.Table:
    """Return records of a hot key that changes every ten batches, and of keys that pass by."""
    rng = np.random.default_rng(batch)
    passing = batch * 20 + rng.integers(0, 150, N_RECORDS)
    keys = [
        f"hot-{batch // 10}" if hot else str(key)
        for hot, key in zip(rng.random(N_RECORDS) < 0.3, passing.tolist(), strict=True)
    ]
    times = BEGIN + batch * SECOND + np.sort(rng.integers(0, SECOND, N_RECORDS))
    return pa.table({"k": keys, "v": [0] * N_RECORDS, "ts": times.tolist()}, schema=SCHEMA)


class Histories(Visits):
    """The same with a list of the records, of which a visit of the hot key holds the last ones."""

    state_schema = "n bigint, text string, expires timestamp, values array<string>"
    growing = ("values",)

    def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
        rows, after = super().update_key(key, records, state, watermark)
        values = [record["ts"].isoformat() for record in records]
        return rows, after | {"values": Append(values, keeps=500)}

    def expire_key(self, key: Any, state: Any, watermark: Any) -> Any:
        assert len(list(state["values"])) == len(state["values"]) <= state["n"]
        return super().expire_key(key, state, watermark)


class Growing(KeyProcessor):
    """A list without end: it costs what is added, so micro-batches stay as fast as they were."""

    state_schema = "n bigint, values array<string>"
    result_schema = "k string, n bigint"
    growing = ("values",)

    def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
        values = [record["ts"].isoformat() * 8 for record in records]
        return [{"n": len(values)}], {"n": len(values), "values": Append(values)}


@pytest.mark.parametrize("processor", [Visits, Histories, Growing])
def test_thousands_of_batches_in_one_process_use_no_more_in_the_end(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    processor: Any,
) -> None:
    rows, ended = [], 0
    query, cpu = None, 0.0
    grows = processor is Growing
    if grows:
        monkeypatch.setattr(version_files, "_MERGED_BYTES", MERGED_BYTES)
    for batch in range(N_BATCHES):
        if query is None or batch % 100 == 0:
            query = Query(
                tmp_path,
                processor(),
                SCHEMA,
                # A move, or another number of workers, costs what the keys hold.
                strategy="hash" if grows else random_moves(),
                workers=None if batch else 3,
                most=4,
                run=f"run-{batch}",
                time=None if grows else "ts",
                delay=SECOND,
                kept=KEPT,
            )
        table = churning(batch % 50 if grows else batch)
        begin = time.process_time()
        results = query.step(batch, table)
        cpu += time.process_time() - begin
        ended += sum(results.column("n").to_pylist())
        if batch % SCALED_EVERY == 1 and not grows:
            scale_to(str(tmp_path), 2 + batch // SCALED_EVERY % 3)
            purge_requests(query.ledger)
        if batch % 10 == 9:
            # Registrations of runs are deleted an hour later at the earliest; this takes minutes.
            files = [path for path in tmp_path.rglob("*") if path.is_file()]
            sizes = [path.stat().st_size for path in files if path.parent.name != "runs"]
            rows.append((cpu / 10, len(sizes), sum(sizes), memory()))
            cpu = 0.0
    assert 0 <= N_BATCHES * N_RECORDS - ended < 20 * N_RECORDS
    first, last = rows[len(rows) // 4 : len(rows) * 5 // 8], rows[len(rows) * 5 // 8 :]
    medians = [
        [statistics.median(column) for column in zip(*half, strict=True)] for half in (first, last)
    ]
    names = ("CPU seconds a batch", "files", "bytes", "bytes of memory")
    with capsys.disabled():
        print(f"\n{processor.__name__}, after a quarter of {N_BATCHES} batches, medians of halves:")
        for name, one, other in zip(names, *medians, strict=True):
            print(f"  {name}: {one:,.4g} and {other:,.4g}")
    assert medians[1][0] <= 1.25 * medians[0][0]
    # Merging holds files of a few MB in a few copies, and the allocator does not return all of them
    # at once. Lists that stayed in memory would add 50 MB of 2,000 batches to the second half.
    assert max(row[3] for row in last) <= 1.05 * max(row[3] for row in first) + 4e6
    if grows:
        return  # what is held grows, and so do the files
    assert max(row[1] for row in last) <= 1.1 * max(row[1] for row in first)
    assert max(row[2] for row in last) <= 1.2 * max(row[2] for row in first)


def memory() -> int:
    """Measure the bytes of memory of this process, without the files that it maps."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("RssAnon:")[2].split()[0])
