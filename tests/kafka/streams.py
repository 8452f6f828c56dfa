"""Test support: records in topics, queries that outlive a broker, and what plain Spark says."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from kafka.broker import Broker

N_RECORDS, PER_BATCH = 400, 80
_SECONDS_TO_A_BATCH = 600  # on a busy machine; a query that stands still is an error after that


def send(spark: Any, broker: Broker, topic: str, begin: int, end: int) -> None:
    """Write records of these numbers; half of them have the key "hot"."""
    number = F.col("id")
    key = F.when(number % 2 == 0, "hot").otherwise(F.concat(F.lit("k"), number % 20))
    records = spark.range(begin, end, 1, 2).select(
        key.alias("key"), number.cast("string").alias("value")
    )
    to_kafka(records.write, broker, topic).save()


def to_kafka(writer: Any, broker: Broker, topic: str) -> Any:
    options = {"kafka.bootstrap.servers": broker.address, "topic": topic}
    return writer.format("kafka").options(**options)


def received(spark: Any, broker: Broker, topic: str) -> DataFrame:
    """Read the present records of a topic, as a batch."""
    return _columns(_from_kafka(spark.read, broker, topic).load())


def stream(spark: Any, broker: Broker, topic: str) -> DataFrame:
    """Return the stream of a topic, few records in a micro-batch."""
    reader = _from_kafka(spark.readStream, broker, topic)
    return _columns(reader.option("maxOffsetsPerTrigger", PER_BATCH).load())


def _from_kafka(reader: Any, broker: Broker, topic: str) -> Any:
    options = {"kafka.bootstrap.servers": broker.address, "subscribe": topic}
    return reader.format("kafka").options(**options).option("startingOffsets", "earliest")


def _columns(df: DataFrame) -> DataFrame:
    return df.select(
        F.col("key").cast("string").alias("key"),
        F.col("value").cast("string").alias("value"),
        "partition",
        "offset",
    )


def through_a_dead_broker(
    spark: Any, broker: Broker, topic: str, start: Callable[[], StreamingQuery]
) -> int:
    """Run a query, kill its broker and start it again, send the rest; return the restarts.

    A query that cannot reach its broker may end. It is then started again, as an operator would.
    """
    send(spark, broker, topic, 0, N_RECORDS // 2)
    query = start()
    try:
        wait_for_batch(query, 0)  # of three: the others are under way, or yet to come
        broker.kill()
        time.sleep(3)  # so that the query asks a broker that does not answer
        broker.start()
        send(spark, broker, topic, N_RECORDS // 2, N_RECORDS)
        restarts = 0
        while not _reached_the_end(query):
            restarts += 1
            assert restarts < 4, "the query did not go on after three restarts"
            query.stop()
            query = start()
        return restarts
    finally:
        query.stop()


def _reached_the_end(query: StreamingQuery) -> bool:
    """Wait until a query has processed all records; tell whether it did, or ended with an error."""
    try:
        query.processAllAvailable()
    except StreamingQueryException:
        return False
    return True


def wait_for_batch(query: StreamingQuery, number: int) -> None:
    """Wait until a micro-batch is done."""
    end = time.monotonic() + _SECONDS_TO_A_BATCH
    while (done := query.lastProgress) is None or done["batchId"] < number:
        assert query.exception() is None, query.exception()
        assert time.monotonic() < end, f"no micro-batch {number} in time"
        time.sleep(0.1)
