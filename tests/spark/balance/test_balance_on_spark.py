"""The balance of queries on Spark."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skewless import aggregations as aggs
from skewless.spark.aggregation.aggregate import aggregate
from skewless.spark.balance.explaining import Balance, explain_balance
from skewless.spark.balance.listener import BalanceListener
from skewless.spark.routing.route import route

N_WORKERS = 4


class Stream(NamedTuple):
    query: Any
    folder: Path
    files: list[list[str | None]]
    listener: BalanceListener


def read(spark: Any, folder: Path) -> Any:
    reader = spark.readStream.schema("k string, v bigint").option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


def run(df: Any, checkpoint: Path) -> Any:
    writer = df.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.awaitTermination()
    return query


@pytest.fixture(scope="module")
def stream(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Stream:
    """Return a stream of three batches that was aggregated while a listener listened."""
    folder = tmp_path_factory.mktemp("stream")
    (folder / "in").mkdir()
    rng = np.random.default_rng(0)
    files = []
    for number in range(3):
        keys: list[str | None] = [
            "hôt" if hot else f"key {key}"
            for hot, key in zip(rng.random(3_000) < 0.4, rng.integers(0, 300, 3_000), strict=True)
        ]
        keys[::100] = [None] * len(keys[::100])
        path = folder / "in" / f"{number}.parquet"
        pq.write_table(pa.table({"k": keys, "v": rng.integers(0, 9, 3_000)}), path)
        os.utime(path, (1_000 + number, 1_000 + number))
        files.append(keys)
    listener = BalanceListener(folder / "ledger")
    spark.streams.addListener(listener)
    try:
        df = read(spark, folder / "in")
        ledger = str(folder / "ledger")
        options = {"strategy": "cascade", "workers": N_WORKERS, "seed": 0, "ledger": ledger}
        df = aggregate(df, "k", {"n": aggs.count()}, **options)
        query = run(df, folder / "checkpoint")
        run(read(spark, folder / "in"), folder / "other")  # another query: not for this listener
        _wait_for(listener, 3)
    finally:
        spark.streams.removeListener(listener)
    return Stream(query, folder, files, listener)


def _wait_for(listener: BalanceListener, n_batches: int) -> None:
    """Let the events of completed batches arrive: Spark delivers them on a thread of its own."""
    for _ in range(100):
        if len(listener.history) >= n_batches:
            return
        time.sleep(0.1)


@pytest.mark.spark
def test_a_stream_is_told_as_it_was(stream: Stream) -> None:
    balance = explain_balance(stream.query, ledger=stream.folder / "ledger")
    assert [batch.batch for batch in balance.batches] == [0, 1, 2]
    for batch, keys in zip(balance.batches, stream.files, strict=True):
        counts = Counter(keys)
        assert batch.records == len(keys) == sum(row.records for row in batch.workers)
        assert len(batch.workers) == N_WORKERS
        assert batch.keys == len(counts)
        n_pairs = sum(row.pairs or 0 for row in batch.workers)
        assert batch.replication == n_pairs / len(counts)
        assert batch.keys_split is not None
        assert 1 <= batch.keys_split <= n_pairs - len(counts)
        assert batch.hot_keys is not None
        hottest = batch.hot_keys[0]
        # 40 % of the records are more than a worker's fourth, so the key is split, and it is
        # among the five heaviest wherever it is.
        assert (hottest.key, hottest.records) == ("hôt", counts["hôt"])
        assert hottest.workers is not None
        assert 2 <= hottest.workers <= N_WORKERS
        assert all((row.seconds or 0.0) > 0.0 for row in batch.workers if row.records)
    # The ledger alone tells the same.
    assert explain_balance(str(stream.folder / "ledger")).batches == balance.batches


@pytest.mark.spark
def test_the_listener_heard_every_batch_of_its_query(stream: Stream) -> None:
    balance = explain_balance(stream.query, ledger=stream.folder / "ledger")
    history = stream.listener.history
    assert [batch.balance for batch in history] == balance.batches
    assert [batch.input_rows for batch in history] == [3_000] * 3
    assert all((batch.rows_per_second or 0.0) > 0.0 for batch in history)
    assert all((batch.batch_seconds or 0.0) > 0.0 for batch in history)


@pytest.mark.spark
def test_a_dataframe_has_a_row_per_batch_and_worker(spark: Any, stream: Stream) -> None:
    balance = explain_balance(stream.query, ledger=stream.folder / "ledger")
    rows = balance.to_dataframe(spark).orderBy("batch", "worker").collect()
    assert [(row.batch, row.worker) for row in rows] == [(b, w) for b in range(3) for w in range(4)]
    batch = balance.batches[1]
    row = rows[N_WORKERS]
    assert (row.records, row.seconds, row.pairs) == (
        batch.workers[0].records,
        batch.workers[0].seconds,
        batch.workers[0].pairs,
    )
    assert (row.imbalance, row.replication, row.replication_exact, row.keys_split) == (
        batch.imbalance,
        batch.replication,
        True,
        batch.keys_split,
    )
    assert row.hot_keys[0].key == "hôt"
    assert row.hot_keys[0].workers == (batch.hot_keys or ())[0].workers
    assert Balance([]).to_dataframe(spark).count() == 0


@pytest.mark.spark
def test_route_alone_tells_the_records_of_the_workers(
    spark: Any, stream: Stream, tmp_path: Path
) -> None:
    spark.conf.set("spark.skewless.ledger", str(tmp_path / "ledgers"))
    try:
        df = route(read(spark, stream.folder / "in"), "k", strategy="shuffle", workers=3)
        query = run(df, tmp_path / "checkpoint")
        balance = explain_balance(query)
    finally:
        spark.conf.unset("spark.skewless.ledger")
    assert [batch.records for batch in balance.batches] == [3_000] * 3
    assert all(batch.imbalance < 0.01 for batch in balance.batches)  # it deals them out in turn
    assert all(batch.replication is None for batch in balance.batches)
    rows = balance.to_dataframe(spark).collect()
    assert {(row.seconds, row.pairs, row.hot_keys) for row in rows} == {(None, None, None)}
    with pytest.raises(ValueError, match="the folder cannot be found from the query: give ledger="):
        explain_balance(query)
    with pytest.raises(ValueError, match=f"belongs to the query {stream.query.id}, not to"):
        explain_balance(query, ledger=stream.folder / "ledger")
