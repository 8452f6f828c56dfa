"""The main job: the same windowed word count under several strategies, beside plain Spark."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from skewless.aggregations import Count
from skewless.apps.drifting_words import SCHEMA
from skewless.arrays import Ints
from skewless.metrics import imbalance
from skewless.spark import aggregate
from skewless.spark.aggregation.windows import WINDOW
from skewless.spark.balance.balance import BatchBalance, read_balance
from skewless.spark.ledger.ledger import Ledger

#: Files of a micro-batch: each is read by another source.
N_FILES = 4
#: How long a window is, and how late a record may be.
WINDOW_LENGTH = "60 seconds"
_LOOK_EVERY_S = 0.1
_OF_A_BATCH = ("batch", "records", "imbalance", "replication")


@dataclass(frozen=True)
class CountLookedUp(Count):
    """Counts records that are scored by a model of their key, which is loaded first.

    Each record takes time, and so does each key on each worker that has it: the worker loads the
    model of the key before it can score records. The work is a sleep. Like a request to a database,
    it takes time but no processor, so more workers than cores help.
    """

    lookup_us: int = 0  # what a record takes, in microseconds
    load_us: int = 0  # what the model of a key takes, in microseconds

    def update(self, columns: Sequence[pa.Array], codes: Ints, n_groups: int) -> list[pa.Array]:
        """Load the models of these keys, wait for each record, and count."""
        time.sleep((codes.size * self.lookup_us + n_groups * self.load_us) * 1e-6)
        return super().update(columns, codes, n_groups)


@dataclass(frozen=True)
class MainJob:
    """The job: words per window, each word scored by a model that is loaded first."""

    words: Path  # the folder with the files of the stream
    n_workers: int = 8  # workers that look up and count
    lookup_us: int = 0  # what a record costs, in microseconds
    load_us: int = 0  # what a word costs each worker that has it in a micro-batch, in microseconds
    seed: int = 0  # of the routing

    def plain(self, spark: SparkSession) -> pa.Table:
        """Return the result of plain Spark over all files as one batch: the truth."""
        words = spark.read.schema(SCHEMA).parquet(str(self.words))
        counted = words.groupBy(F.window("ts", WINDOW_LENGTH), "word").count()
        return _sorted(counted.withColumnRenamed("count", "n"))

    def stream(
        self,
        spark: SparkSession,
        strategy: str,
        folder: Path,
        progress: Callable[[int], None] = lambda done: None,
    ) -> JobRun:
        """Run the job as a stream under `strategy`; its files go into `folder`.

        `progress` gets the number of finished micro-batches.
        """
        words = (
            spark.readStream.schema(SCHEMA)
            .option("maxFilesPerTrigger", N_FILES)
            .parquet(str(self.words))
        )
        counted = aggregate(
            words,
            "word",
            {"n": CountLookedUp(lookup_us=self.lookup_us, load_us=self.load_us)},
            window=("ts", WINDOW_LENGTH),
            watermark=WINDOW_LENGTH,
            strategy=strategy,
            workers=self.n_workers,
            seed=self.seed,
            ledger=str(folder / "ledger"),
            mode="update",
        )
        results = folder / "results"

        def write(rows: DataFrame, batch: int) -> None:
            rows.write.mode("overwrite").parquet(str(results / f"batch={batch}"))
            progress(batch + 1)

        query = finish(
            counted.writeStream.outputMode("update")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .foreachBatch(write)
            .trigger(availableNow=True)
        )
        updates = spark.read.parquet(str(results))
        # The last row of a window and a word counts.
        latest = updates.groupBy(WINDOW, "word").agg(F.max_by("n", "batch").alias("n"))
        return JobRun(strategy, tuple(self._batches(query, folder / "ledger")), _sorted(latest))

    def _batches(self, query: StreamingQuery, ledger: Path) -> Iterator[tuple[float, BatchBalance]]:
        """Yield the micro-batches that had records: times from Spark, the rest from the ledger."""
        for event in query.recentProgress:
            if event["numInputRows"]:
                seconds = event["durationMs"]["triggerExecution"] / 1000
                balance = read_balance(Ledger(str(ledger)), event["batchId"], self.n_workers)
                assert balance is not None  # the stream has ended, so all reports are there
                yield seconds, balance


@dataclass(frozen=True, eq=False)
class JobRun:
    """What one strategy did, and the result."""

    strategy: str
    batches: tuple[tuple[float, BatchBalance], ...]  # seconds, and how records were spread
    result: pa.Table

    def n_differences(self, truth: pa.Table) -> int:
        """Count the rows that are in one result and not in the other; 0: they are equal."""
        if self.result.equals(truth):
            return 0
        ours, theirs = (
            Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))
            for table in (self.result, truth)
        )
        return max(1, sum(((ours - theirs) + (theirs - ours)).values()))

    def summary(self, truth: pa.Table) -> dict[str, Any]:
        """Return the numbers that a table or a page shows, as plain data."""
        seconds = [took for took, _ in self.batches]
        balances = [balance for _, balance in self.batches]
        records = sum(balance.records for balance in balances)
        each = [[worker.records for worker in balance.workers] for balance in balances]
        loads = np.sum(each, axis=0).tolist()  # over the whole stream
        known = [b.replication for b in balances if b.replication is not None]
        return {
            "strategy": self.strategy,
            "records": records,
            "records_per_second": records / sum(seconds),
            "batch_seconds": float(np.median(seconds)),
            "loads": loads,
            "imbalance": imbalance(loads),
            "batch_imbalance": float(np.mean([balance.imbalance for balance in balances])),
            "batch_replication": float(np.mean(known)) if known else None,
            "differences": self.n_differences(truth),
            "rows": truth.num_rows,
            "batches": [
                {"seconds": took} | {name: getattr(balance, name) for name in _OF_A_BATCH}
                for took, balance in self.batches
            ],
        }


def finish(writer: DataStreamWriter) -> StreamingQuery:
    """Start the query and wait until it has ended; an interrupt stops it."""
    query = writer.start()
    try:
        # Sleep here, because an interrupt inside a call to Java breaks the connection.
        while query.isActive:
            time.sleep(_LOOK_EVERY_S)
        query.awaitTermination()  # raises what went wrong
    finally:
        if query.isActive:
            query.stop()
    return query


def _sorted(counted: DataFrame) -> pa.Table:
    """Return the rows in a fixed order, with a schema that does not depend on the engine."""
    flat = counted.select(F.col("window.start").alias("start"), "word", "n").toArrow()
    flat = flat.sort_by([("start", "ascending"), ("word", "ascending")]).combine_chunks()
    return pa.table(flat.columns, names=flat.column_names)
