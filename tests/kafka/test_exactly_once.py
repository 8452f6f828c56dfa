"""Records come from a broker that is killed and started again; results are those of plain Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from kafka.broker import Broker
from kafka.streams import (
    N_RECORDS,
    received,
    stream,
    through_a_dead_broker,
    to_kafka,
)
from skewless import aggregations as aggs
from skewless.spark import aggregate, process, read_state, route
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
