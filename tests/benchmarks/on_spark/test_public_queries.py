"""The queries of the public workloads: both ways give the same, at once and as a stream."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from benchmarks.public import nexmark, shufflebench
from benchmarks.public.auctions import Auctions
from benchmarks.public.both_ways import (
    Query,
    in_order,
    run_stream,
)
from benchmarks.public.shufflebench import Rules, ShuffleRecords

pytestmark = pytest.mark.spark

RULES = Rules(n_consumers=20)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("public")
    Auctions(n_events=2000, n_batches=2, events_per_second=100).write(folder)
    ShuffleRecords(n_records=300, n_batches=3).write(folder)
    return folder


def run_batch(
    spark: Any, query: Query, schemas: Mapping[str, str], inputs: Path, *, ours: bool
) -> pa.Table:
    """Return the results of a query over all files at once, in order."""
    frames = [spark.read.schema(schemas[name]).parquet(str(inputs / name)) for name in query.reads]
    results = query.ours(frames, None) if ours else query.plain(frames)
    return in_order(results.where(query.counts))


@pytest.mark.slow
@pytest.mark.parametrize("name", nexmark.QUERIES)
def test_both_ways_of_nexmark_agree(spark: Any, inputs: Path, tmp_path: Path, name: str) -> None:
    query = nexmark.QUERIES[name]
    plain = run_batch(spark, query, nexmark.SCHEMAS, inputs, ours=False)
    ours = run_batch(spark, query, nexmark.SCHEMAS, inputs, ours=True)
    assert plain.num_rows >= 1
    assert_same(ours, plain)
    for way in (False, True):
        folder = tmp_path / str(way)
        run = run_stream(spark, query, nexmark.SCHEMAS, inputs, folder, ours=way)
        assert_same(run.results, plain)
        assert sum(run.n_records) == sum(
            len(pq.read_table(inputs / stream, columns=["ts"])) for stream in query.reads
        )


def test_q19_has_the_highest_bids_of_each_auction(spark: Any, inputs: Path) -> None:
    bids = pq.read_table(inputs / "bids").to_pylist()
    highest = run_batch(spark, nexmark.QUERIES["Q19"], nexmark.SCHEMAS, inputs, ours=True)
    for auction in {bid["auction"] for bid in bids}:
        mine = [bid for bid in bids if bid["auction"] == auction]
        mine.sort(key=lambda bid: (-bid["price"], bid["ts"]))
        found = [row["ts"] for row in highest.to_pylist() if row["auction"] == auction]
        assert found == [bid["ts"] for bid in mine[:10]]


@pytest.mark.slow
def test_consumers_are_those_of_a_plain_loop(spark: Any, inputs: Path, tmp_path: Path) -> None:
    expected = consumed_in_a_loop(inputs)
    assert len(expected) > 20
    query = shufflebench.shufflebench(RULES)
    for way in (False, True):
        run = run_stream(spark, query, shufflebench.SCHEMAS, inputs, tmp_path / str(way), ours=way)
        assert run.results.to_pylist() == expected
        assert run.n_records == (100, 100, 100)
    at_once = run_batch(spark, query, shufflebench.SCHEMAS, inputs, ours=True)
    assert at_once.to_pylist() == expected


def consumed_in_a_loop(inputs: Path) -> list[dict[str, int]]:
    records = pq.read_table(inputs / "records")
    rows, consumers = RULES.match(records["value"].combine_chunks())
    expected = []
    for consumer in range(RULES.n_consumers):
        mine = sorted(rows[consumers == consumer].tolist())
        values = [records["value"][row].as_py() for row in mine]
        emitted, n, held = shufflebench.consume(consumer, 0, None, values)
        assert n == len(mine)
        assert len(held) == 32 << consumer % 6
        expected += [{"consumer": consumer, "n": a, "checksum": b} for a, b in emitted]
    return expected


def test_a_consumer_sees_the_order_of_its_records() -> None:
    values = [bytes([i]) * 1024 for i in range(10)]
    (row,), n, held = shufflebench.consume(3, 0, None, values)
    assert (row[0], n) == (10, 10)
    assert shufflebench.consume(3, 0, None, values[::-1])[0] != [row]
    first = shufflebench.consume(3, 0, None, values[:4])
    assert shufflebench.consume(3, first[1], first[2], values[4:]) == ([row], 10, held)


def assert_same(ours: pa.Table, plain: pa.Table) -> None:
    assert ours.schema == plain.schema
    assert ours.to_pylist() == plain.to_pylist()
