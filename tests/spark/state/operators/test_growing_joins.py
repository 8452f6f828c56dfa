"""A join stores each held row by itself: a micro-batch reads and writes what its records need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from skewless.spark.ledger import LedgerCorrupt
from skewless.spark.state.operators.join_processor import LEFT, RIGHT, SIDE, TIME, Join, Side
from skewless.spark.state.reading import StateReader
from skewless.spark.state.versions import bases, version_files
from skewless.spark.state.versions.state_tables import layout_of
from skewless.spark.state.versions.version_files import read
from spark.state.chains import BEGIN, random_moves
from spark.state.operators.plain_operators import joined
from spark.state.operators.stepping import SECOND, drifting, rows_of, stepped, table_of
from spark.state.operators.test_against_plain_python import (
    DELAY,
    both_sides,
    join_processor,
    two_sides,
)
from spark.state.without_spark import Query

WITHIN = 7 * SECOND
DAY = 86_400 * SECOND
USUAL = pa.default_memory_pool()
#: It counts what is allocated. It must live for as long as anything that was allocated in it.
COUNTED = pa.proxy_memory_pool(USUAL)


def wide(within: int) -> Join:
    """Return a left outer join of rows with a long text."""
    ts, text = StructField("ts", TimestampType()), StructField("text", StringType())
    sides = (Side(LEFT, StructType([ts, text])), Side(RIGHT, StructType([ts])))
    right = StructField("ts_right", TimestampType())
    key = StructField("k", StringType())
    return Join(StructType([key, ts, text, right]), ["k"], sides, (True, False), within)


def wide_rows(keys: list[str], times: Any, *, left: bool) -> pa.Table:
    """Return records of one side; those of the left side have a text of 1,000 letters."""
    n, moments = len(keys), pa.array(BEGIN + np.asarray(times)).cast(pa.timestamp("us", "UTC"))
    texts = pa.array([f"{number:01000}" for number in range(n)])
    sides = [
        pa.StructArray.from_arrays([moments, texts], ["ts", "text"]),
        pa.StructArray.from_arrays([moments], ["ts"]),
    ]
    sides[left] = pa.nulls(n, sides[left].type)
    flags = pa.array([not left] * n, pa.bool_())
    return pa.table([pa.array(keys), flags, moments, *sides], ["k", SIDE, TIME, LEFT, RIGHT])


def test_a_micro_batch_costs_what_its_records_need(tmp_path: Path) -> None:
    """Two keys hold 10,000 rows of 1,000 bytes each; a few records of each come."""
    n, many = 20_000, ["a", "b"]
    held = wide_rows(many * (n // 2), np.arange(n) * SECOND // 10, left=True)
    one = Query(tmp_path, wide(SECOND), held.schema, time=TIME, delay=DAY, workers=1)
    one.step(0, held)
    before = {path: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()}
    assert max(before.values()) > 1_000 * n
    for batch in range(1, 5):
        new = [
            wide_rows(many, [1000 * SECOND + batch, 1001 * SECOND], left=True),
            wide_rows(many, [500 * SECOND, 1500 * SECOND], left=False),
        ]
        pa.set_memory_pool(COUNTED)
        try:
            results = one.step(batch, pa.concat_tables(new))
        finally:
            pa.set_memory_pool(USUAL)
        # Of each key, one row in 0.2 seconds, and all within a second before and after.
        assert 10 <= results.num_rows // 2 <= 11
        assert 0 < COUNTED.max_memory() < 500_000
        after = {path: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()}
        assert sum(size for path, size in after.items() if path not in before) < 150_000
        before = after


def sides_of(n_batches: int, seed: int) -> Any:
    batches = two_sides(drifting(n_batches, seed))
    return batches, [both_sides(*batch) for batch in batches]


@pytest.mark.parametrize("how", ["inner", "full"])
def test_large_files_are_left_out_when_their_rows_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """No file is small enough to be merged, so each micro-batch adds one."""
    monkeypatch.setattr(version_files, "_MERGED_BYTES", 0)
    batches, tables = sides_of(16, 8)
    one = Query(
        tmp_path,
        join_processor(WITHIN, how),
        tables[0].schema,
        time=TIME,
        delay=DELAY,
        strategy=random_moves(),
        workers=2,
    )
    found, n_files = [], []
    for batch, table in enumerate(tables):
        found.append(rows_of(one.step(batch, table)))
        base = bases.newest(one.ledger)
        assert base is not None
        n_files.append(len(read(one.ledger, base.version(0).file).below))
    assert found == joined(batches, WITHIN, DELAY, how)
    assert 3 < max(n_files) < 12


def test_keys_with_the_same_hash_are_not_mixed_up(tmp_path: Path) -> None:
    batches, tables = sides_of(10, 9)

    def hashes(table: pa.Table) -> Any:
        lengths = [0 if key is None else len(key) for key in table.column("k").to_pylist()]
        return np.array(lengths, np.uint64) << np.uint64(61)

    found = stepped(
        tmp_path, join_processor(WITHIN, "full"), tables, time=TIME, delay=DELAY, hashes=hashes
    )
    assert found == joined(batches, WITHIN, DELAY, "full")


def test_rows_that_were_stored_as_lists_are_refused(tmp_path: Path) -> None:
    """By a name: an unreleased version did so."""
    _, tables = sides_of(2, 10)
    for batch, table in enumerate(tables):
        processor = join_processor(WITHIN, "full")
        if batch == 0:
            processor.holds_rows_for = None  # as before rows were stored one by one
        one = Query(tmp_path, processor, table.schema, time=TIME, delay=DELAY)
        if batch == 0:
            one.step(batch, table)
            continue
        with pytest.raises(LedgerCorrupt, match=r"cannot be used: column 'state\..*not expected"):
            one.step(batch, table)


def test_the_held_rows_are_read_as_lists(tmp_path: Path) -> None:
    sides = [("a", 1, 0), ("a", 2, SECOND), ("b", 3, 0)], [("a", 4, 2 * SECOND)]
    table = both_sides(*sides)
    one = Query(tmp_path, join_processor(WITHIN, "full"), table.schema, time=TIME, delay=DELAY)
    one.step(0, table)
    base = bases.newest(one.ledger)
    assert base is not None
    layout = layout_of(read(one.ledger, base.version(0).file).table.schema)
    workers = pa.RecordBatch.from_pydict({"id": list(range(base.workers))})
    found = pa.Table.from_batches(StateReader(one.ledger, base, layout).rows(iter([workers])))
    rows = {row["k"]: row for row in found.to_pylist()}
    assert [item["row"]["v"] for item in rows["a"][LEFT]] == [1, 2]
    assert [(item["row"]["v"], item["met"]) for item in rows["a"][RIGHT]] == [(4, True)]
    assert [(item["row"]["v"], item["met"]) for item in rows["b"][LEFT]] == [(3, False)]
    first = table_of([("", 0, WITHIN)]).column("ts")[0].as_py()
    assert (rows["a"]["expires"], rows["b"]["expires"]) == (first, first)
    assert rows["a"]["bytes"] > rows["b"]["bytes"] > 0
