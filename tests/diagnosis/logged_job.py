"""A job of Spark with one hot key, as a program that writes an event log: its arguments say how.

    python logged_job.py WORK FOLDER [SETTING=VALUE ...]

WORK is "records" (a function over the records of partitions), "keys" (a function per key),
"fails" (the task of the hot key fails each time), or "killed" (the program ends while that task
runs).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

N_RECORDS = 400
SECONDS = 0.006  # that a record takes
FILLER = 3_000_000  # characters: files of a log are rolled after 10 MiB at the earliest


def main(work: str, folder: str, *settings: str) -> None:
    """Run the job."""
    builder = SparkSession.builder.appName("hot key").master("local[2,2]")
    given = {
        "spark.ui.enabled": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file:{folder}",
        "spark.sql.shuffle.partitions": "4",
    } | dict(setting.split("=", 1) for setting in settings)
    for name, value in given.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if given.get("spark.eventLog.rolling.enabled") == "true":
        spark.sparkContext.setLocalProperty("filler", "x" * FILLER)
        for _ in range(4):
            spark.sparkContext.parallelize([1], 1).count()
        spark.sparkContext.setLocalProperty("filler", None)
    key = F.when(F.col("id") % 5 < 3, 0).otherwise(F.col("id") % 40)
    keyed = spark.range(0, N_RECORDS, 1, 2).select(key.alias("key"), "id")
    try:
        if work == "keys":
            keyed.groupBy("key").applyInPandas(_per_key, "key long").count()
        else:
            functions = {"records": _per_record, "fails": _failing, "killed": _killing}
            keyed.repartition(4, "key").mapInArrow(functions[work], keyed.schema).count()
    finally:
        spark.stop()


def _per_record(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        time.sleep(SECONDS * batch.num_rows)
        yield batch


def _per_key(records: pd.DataFrame) -> pd.DataFrame:
    time.sleep(SECONDS * len(records))
    return records[["key"]].head(1)


def _failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows > N_RECORDS / 2:
            raise MemoryError("the hot key")
        yield batch


def _killing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows > N_RECORDS / 2:
            time.sleep(600.0)
        yield batch


if __name__ == "__main__":
    if sys.argv[1] == "killed":  # as a driver that runs out of memory or time
        import threading

        threading.Timer(20.0, lambda: os._exit(1)).start()
    main(*sys.argv[1:])
