"""Streams through `process` on Spark: moves, other workers, sources without data, odd sinks."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

from skewless.spark import KeyProcessor, explain_balance, process, scale_to
from skewless.spark.ledger import LedgerMismatch
from spark.state.chains import DDL, chain, chained, in_order, random_moves, records, rows_of
from spark.streams import configured, read_stream, run, write_file

pytestmark = pytest.mark.spark


def test_a_stream_with_moves_and_other_workers_equals_plain_python(
    spark: Any, tmp_path: Path
) -> None:
    tables = [records(300, seed) for seed in range(5)]
    tables[2] = tables[2].slice(0, 0)
    found: dict[int, Any] = {}
    ledger = str(tmp_path / "ledger")
    for number, table in enumerate(tables):
        write_file(tmp_path / "in", number, table)
        if number < 2:
            continue
        stream = read_stream(spark, tmp_path / "in", DDL)
        results = process(
            stream,
            "k",
            chain(),
            strategy=random_moves(),
            max_workers=4,
            ledger=ledger,
            workers=2 if number < 4 else 4,
        )
        if number == 3:
            scale_to(ledger, 3)
        found |= run(results, "append", tmp_path / "checkpoint")
    assert rows_of(found) == chained(tables)
    balance = explain_balance(ledger)
    assert [len(batch.workers) for batch in balance.batches] == [2, 2, 2, 3, 4]
    assert [batch.records for batch in balance.batches] == [table.num_rows for table in tables]
    assert all(batch.keys_split == 0 for batch in balance.batches)
    with pytest.raises(LedgerMismatch, match="was written for key=k string, not v bigint"):
        process(read_stream(spark, tmp_path / "in", DDL), "v", chain(), ledger=ledger)


def first_seen() -> KeyProcessor:
    """Return an object of a nested class, which workers need not import."""

    class FirstSeen(KeyProcessor):
        state_schema = "first timestamp, expires timestamp"
        result_schema = "k timestamp, first timestamp, seen string"

        def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
            first = state["first"] if state else records[0]["ts"]
            expires = first + timedelta(days=9)
            return [{"first": first, "seen": str(records[-1]["ts"])}], {
                "first": first,
                "expires": expires,
            }

    return FirstSeen()


def test_a_restart_in_another_time_zone_continues(spark: Any, tmp_path: Path) -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
    zone = spark.conf.get("spark.sql.session.timeZone")
    found: dict[int, Any] = {}
    try:
        for number, name in enumerate((zone, "America/New_York")):
            times = pa.array([noon + timedelta(hours=number)], pa.timestamp("us", "UTC"))
            key = pa.array([noon], pa.timestamp("us", "UTC"))
            write_file(tmp_path / "in", number, pa.table({"k": key, "ts": times}))
            spark.conf.set("spark.sql.session.timeZone", name)
            stream = read_stream(spark, tmp_path / "in", "k timestamp, ts timestamp")
            results = process(
                *(stream, "k", first_seen()),
                watermark=("ts", "1 minute"),
                workers=2,
                ledger=str(tmp_path / "ledger"),
            )
            texts = results.selectExpr("unix_micros(k) k", "unix_micros(first) first", "seen")
            found |= run(texts, "append", tmp_path / "checkpoint")
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    micros = round(noon.timestamp() * 1e6)
    rows = [tuple(row) for number in sorted(found) for row in found[number]]
    assert rows == [
        (micros, micros, "2026-03-01 12:00:00+00:00"),
        (micros, micros, "2026-03-01 13:00:00+00:00"),
    ]


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_a_micro_batch_without_records_for_it_has_a_version(
    spark: Any, tmp_path: Path, adaptive: str
) -> None:
    """Spark leaves out the part of a query whose source has nothing new, if it can."""
    with configured(spark, {"spark.sql.adaptive.streaming.stateless.enabled": adaptive}):
        check_micro_batches_without_records(spark, tmp_path)


def check_micro_batches_without_records(spark: Any, tmp_path: Path) -> None:
    tables = [records(40, seed) for seed in range(2)]
    write_file(tmp_path / "in", 0, tables[0])
    write_file(tmp_path / "other", 0, tables[0].slice(0, 1))
    found: dict[int, Any] = {}
    for number in range(3):
        ours = process(
            read_stream(spark, tmp_path / "in", DDL, files=9),
            "k",
            chain(),
            workers=2,
            ledger=str(tmp_path / "ledger"),
        )
        other = read_stream(spark, tmp_path / "other", DDL, files=9)
        both = ours.unionByName(other.selectExpr("'x' AS k", "v AS n", "v AS sum", "v AS last"))
        if number == 1:
            write_file(tmp_path / "other", 1, tables[0].slice(1, 1))
        if number == 2:
            write_file(tmp_path / "in", 1, tables[1])
        found |= run(both, "append", tmp_path / "checkpoint")
    kept = {number: [row for row in rows if row["k"] != "x"] for number, rows in found.items()}
    assert rows_of(kept) == [rows_of(kept)[0], [], rows_of(kept)[2]]
    assert [rows_of(kept)[0], rows_of(kept)[2]] == chained(tables)


def test_a_sink_that_evaluates_a_part_is_told_so(spark: Any, tmp_path: Path) -> None:
    for number in range(2):
        write_file(tmp_path / "in", number, records(40, number))
    results = process(
        read_stream(spark, tmp_path / "in", DDL),
        "k",
        chain(),
        workers=3,
        ledger=str(tmp_path / "ledger"),
    )
    seen: list[Any] = []
    writer = results.writeStream.foreachBatch(lambda batch, _: seen.append(batch.take(1)))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(StreamingQueryException, match="micro-batch 0 was evaluated in part"):
        query.trigger(availableNow=True).start().awaitTermination()
    assert len(in_order(map(tuple, seen[0]))) == 1


def test_a_ledger_that_outlives_its_checkpoint_is_refused_and_loses_nothing(
    spark: Any, tmp_path: Path
) -> None:
    """A full refresh of a Declarative Pipeline deletes checkpoints, and no other folder."""
    tables, ledger = [records(40, seed) for seed in range(2)], str(tmp_path / "ledger")
    checkpoint, aside = tmp_path / "checkpoint", tmp_path / "aside"

    def rows(ledger: str | None = ledger) -> dict[int, Any]:
        stream = read_stream(spark, tmp_path / "in", DDL)
        results = process(stream, "k", chain(), workers=2, ledger=ledger)
        return run(results, "append", checkpoint)

    write_file(tmp_path / "in", 0, tables[0])
    found = rows()
    checkpoint.rename(aside)
    with pytest.raises(StreamingQueryException, match=r"belongs to the query .* give this"):
        rows()
    shutil.rmtree(checkpoint)
    root = tmp_path / "root"
    with configured(spark, {"spark.skewless.ledger": str(root)}):
        for n_ledgers in (1, 2):
            assert rows_of(rows(None)) == rows_of(found)
            assert len(list(root.iterdir())) == n_ledgers
            shutil.rmtree(checkpoint)
    aside.rename(checkpoint)
    write_file(tmp_path / "in", 1, tables[1])
    assert rows_of(found | rows()) == chained(tables)
