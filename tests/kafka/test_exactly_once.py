"""Records come from a broker that is killed and started again; results are those of plain Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from kafka.broker import Broker
from kafka.streams import (
    N_RECORDS,
    PER_BATCH,
    received,
    send,
    stream,
    through_a_dead_broker,
    to_kafka,
)
from skewless import aggregations as aggs
from skewless.spark import aggregate, process, read_state, route, sessions
from spark_sessions import totals


def length() -> Any:
    """Return an aggregator as a user writes it; Spark gets its class with the query."""

    class Length(aggs.Aggregator[int]):
        inputs = ("value",)
        state = "bigint"
        result = "bigint"

        def zero(self) -> int:
            return 0

        def update(self, state: int, records: Any) -> int:
            return state + sum(len(value) for value in records["value"].to_pylist())

        def merge(self, a: int, b: int) -> int:
            return a + b

        def finish(self, state: int) -> int:
            return state

    return Length()


def test_routed_records_reach_files_once_each(spark: Any, broker: Broker, tmp_path: Path) -> None:
    def start() -> StreamingQuery:
        ledger = str(tmp_path / "ledger")
        routed = route(stream(spark, broker, "in"), "key", workers=3, ledger=ledger)
        writer = routed.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        query: StreamingQuery = writer.option("checkpointLocation", str(tmp_path / "cp")).start()
        return query

    through_a_dead_broker(spark, broker, "in", start)
    ours = spark.read.parquet(str(tmp_path / "out"))
    columns = ["key", "value", "partition", "offset"]
    assert sorted(ours.select(columns).collect()) == sorted(received(spark, broker, "in").collect())
    assert ours.count() == N_RECORDS
    assert ours.where("key = 'hot'").select("worker").distinct().count() > 1


def test_states_and_results_of_process_count_each_record_once(
    spark: Any, broker: Broker, tmp_path: Path
) -> None:
    ledger = str(tmp_path / "ledger")

    def start() -> StreamingQuery:
        counted = process(stream(spark, broker, "in"), "key", totals(), workers=3, ledger=ledger)
        writer = counted.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        query: StreamingQuery = writer.option("checkpointLocation", str(tmp_path / "cp")).start()
        return query

    through_a_dead_broker(spark, broker, "in", start)
    plain = sorted(received(spark, broker, "in").groupBy("key").count().collect())
    results = spark.read.parquet(str(tmp_path / "out")).groupBy("key")
    assert sorted(results.agg(F.sum("new")).collect()) == plain
    assert sorted(read_state(spark, ledger).select("key", "n").collect()) == plain


def test_the_last_result_of_each_key_in_a_topic_is_that_of_plain_spark(
    spark: Any, broker: Broker, tmp_path: Path
) -> None:
    """Spark's sink for Kafka may repeat rows after a failure; the last one of a key counts."""

    def start() -> StreamingQuery:
        lengths = aggregate(
            stream(spark, broker, "in"),
            "key",
            {"length": length()},
            strategy="cascade",
            workers=3,
            mode="update",
            ledger=str(tmp_path / "ledger"),
        )
        # One partition, so that offsets tell which row of a key is the last one.
        rows = lengths.select(
            "key", F.col("length").cast("string").alias("value"), F.lit(0).alias("partition")
        )
        writer = to_kafka(rows.writeStream, broker, "out").outputMode("update")
        query: StreamingQuery = writer.option("checkpointLocation", str(tmp_path / "cp")).start()
        return query

    through_a_dead_broker(spark, broker, "in", start)
    last = received(spark, broker, "out").groupBy("key").agg(F.max_by("value", "offset"))
    wanted = received(spark, broker, "in").groupBy("key").agg(F.sum(F.length("value")))
    assert {row[0]: int(row[1]) for row in last.collect()} == dict(wanted.collect())


def test_the_last_sessions_of_a_topic_come_without_a_further_record(
    spark: Any, broker: Broker, tmp_path: Path
) -> None:
    """Records and clock read one source: else its offsets could differ, and a time be missed."""
    timed = F.timestamp_seconds(F.col("value").cast("bigint")).alias("ts")
    send(spark, broker, "in", 0, PER_BATCH)  # one micro-batch, and one second between records
    found = sessions(
        stream(spark, broker, "in").select("key", timed),
        "key",
        "5 seconds",
        watermark=("ts", "10 seconds"),
        workers=3,
        ledger=str(tmp_path / "ledger"),
        closes_without_data=True,
    )
    writer = found.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    query = writer.option("checkpointLocation", str(tmp_path / "cp")).start()
    try:
        query.processAllAvailable()
        read = [one for one in query.recentProgress if one["numInputRows"]]
        assert [len(one["sources"]) for one in read] == [1]
        # Both read the same offsets, and Spark counts what each of them reads.
        assert read[0]["sources"][0]["numInputRows"] == 2 * PER_BATCH
    finally:
        query.stop()
    window = F.session_window(F.col("ts"), "5 seconds")
    plain = received(spark, broker, "in").select("key", timed).groupBy("key", window).count()
    end = F.unix_seconds("session_window.end")
    rows = plain.select("key", "session_window.start", "session_window.end", "count", end).collect()
    # Spark would push a filter below the merging of sessions, and find shorter ones.
    wanted = sorted(tuple(row[:4]) for row in rows if row[4] <= PER_BATCH - 11)
    assert len(wanted) > 5
    assert sorted(map(tuple, spark.read.parquet(str(tmp_path / "out")).collect())) == wanted
