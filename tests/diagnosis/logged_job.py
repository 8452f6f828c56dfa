"""A job of Spark with one hot key, as a program that writes an event log: its arguments say how.

    python logged_job.py WORK FOLDER [SETTING=VALUE ...]

WORK is "records" (a function over the records of partitions), "keys" (a function per key),
"fails" (the task of the hot key fails each time), or "killed" (the program ends while that task
runs).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

N_RECORDS = 400
SECONDS = 0.02  # that a record takes
FILLER = 3_000_000  # characters: files of a log are rolled after 10 MiB at the earliest


def main(work: str, folder: str, *settings: str) -> None:
    """Run the job."""
    builder = SparkSession.builder.appName("hot key").master("local[2,2]")
    given = {
        "spark.ui.enabled": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file:{folder}",
        "spark.sql.shuffle.partitions": "4",
        # With so few records, adaptive execution would make one task of all.
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    } | dict(setting.split("=", 1) for setting in settings)
    for name, value in given.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    context = spark.sparkContext
    if given.get("spark.eventLog.rolling.enabled") == "true":
        context.setLocalProperty("filler", "x" * FILLER)
        for _ in range(4):
            context.parallelize([1], 1).count()
        context.setLocalProperty("filler", None)
    context.setJobDescription("even")  # Python processes start, which can take as long as the work
    _do(work, spark.range(0, 40, 1, 2).select(F.col("id").alias("key"), "id"), folder)
    if work == "killed":
        java = context._jvm.java.lang.ProcessHandle.current().pid()
        threading.Thread(target=_kill_when_begun, args=(java, folder), daemon=True).start()
    context.setJobDescription("hot")
    key = F.when(F.col("id") % 5 < 3, 0).otherwise(F.col("id") % 40)
    try:
        _do(work, spark.range(0, N_RECORDS, 1, 2).select(key.alias("key"), "id"), folder)
    finally:
        spark.stop()


def _do(work: str, keyed: DataFrame, folder: str) -> None:
    if work == "keys":
        keyed.groupBy("key").applyInPandas(_per_key, "key long").count()
        return
    functions = {"records": _per_record, "fails": _failing, "killed": _waiting(folder)}
    keyed.repartition(4, "key").mapInArrow(functions[work], keyed.schema).count()


def _kill_when_begun(java: int, folder: str) -> None:
    """End driver and executor at once, as if the machine were lost."""
    while not Path(f"{folder}.begun").exists():
        time.sleep(0.2)
    time.sleep(2.0)
    os.kill(java, signal.SIGKILL)
    os._exit(1)


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


def _waiting(folder: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows > N_RECORDS / 2:
                Path(f"{folder}.begun").touch()
                time.sleep(60.0)
            yield batch

    return wait


if __name__ == "__main__":
    main(*sys.argv[1:])
