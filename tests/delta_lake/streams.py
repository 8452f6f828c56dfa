"""Test support: a Delta table that grows, streams of it, and a micro-batch that runs twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

N_APPENDS, PER_APPEND = 5, 80


def append(spark: Any, table: Path, number: int) -> None:
    """Append records to a table; half of all have the key "hot"."""
    n = F.col("id")
    key = F.when(n % 2 == 0, "hot").otherwise(F.concat(F.lit("k"), n % 20))
    records = spark.range(number * PER_APPEND, (number + 1) * PER_APPEND, 1, 1)
    rows = records.select(key.alias("key"), n.alias("value"))
    rows.write.format("delta").mode("append").save(str(table))


def stream(spark: Any, table: Path) -> DataFrame:
    """Return the stream of a table, one append in a micro-batch."""
    reader = spark.readStream.format("delta").option("maxFilesPerTrigger", 1)
    df: DataFrame = reader.load(str(table))
    return df


def read(spark: Any, table: Path) -> DataFrame:
    df: DataFrame = spark.read.format("delta").load(str(table))
    return df


def run_with_a_replay(spark: Any, place: Path, make_writer: Callable[[], Any]) -> None:
    """Run a query over all appends; stop it halfway, and let its last micro-batch run again.

    A driver that dies after the sink has taken a micro-batch, and before Spark has noted that,
    leaves a checkpoint without that note. Taking the note away is the same.
    """
    checkpoint = place / "checkpoint"
    for part in (range(N_APPENDS // 2), range(N_APPENDS // 2, N_APPENDS)):
        for number in part:
            append(spark, place / "in", number)
        _run(make_writer(), checkpoint)
        notes = [path for path in (checkpoint / "commits").glob("[0-9]*") if path.name.isdigit()]
        last = max(notes, key=lambda path: int(path.name))
        last.unlink()
        (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
        _run(make_writer(), checkpoint)
        assert last.exists()  # so the micro-batch did run again


def _run(writer: Any, checkpoint: Path) -> None:
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
