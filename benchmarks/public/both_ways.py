"""A query in two ways, by Spark's operators and by the verbs of skewless, run as a stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from benchmarks.turns import file_stream, run_to_end

_BATCH = "batch"


@dataclass(frozen=True)
class Query:
    """What is asked, and two ways to answer it, on batch DataFrames and on streams."""

    # The folders of the streams that it reads, in the order of its arguments.
    reads: tuple[str, ...]
    # Its short name, and the question in one line.
    name: str
    asks: str
    # The query as one would write it with Spark's own operators.
    plain: Callable[[Sequence[DataFrame]], DataFrame]
    # The same with a verb of skewless; the second argument is the folder of its ledger.
    ours: Callable[[Sequence[DataFrame], str | None], DataFrame]
    # What each of them uses, for people.
    plain_verb: str
    our_verb: str
    # The columns that identify the row that another one replaces; without them, all rows count.
    key: tuple[str, ...] = ()
    # An SQL condition for the rows that count: not those of records that only move the clock. It is
    # not part of the query, because Spark would then filter before it sees the times of these
    # records.
    counts: str = "true"


@dataclass(frozen=True)
class Run:
    """One query, run in one way."""

    n_records: tuple[int, ...]  # what each micro-batch read
    # What each took. Those that only close windows have one record, or none.
    seconds: tuple[float, ...]
    results: pa.Table  # the final results, in order


def run_stream(
    spark: SparkSession,
    query: Query,
    schemas: Mapping[str, str],
    inputs: Path,
    folder: Path,
    *,
    ours: bool,
) -> Run:
    """Run a query over all files of `inputs`, one of each stream per micro-batch.

    Checkpoint, ledger and results go into `folder`.
    """
    streams = [file_stream(spark, schemas[name], inputs / name) for name in query.reads]
    if ours:
        # Rows of a verb with a ledger are never replaced.
        answered, mode = query.ours(streams, str(folder / "ledger")), "append"
    else:
        answered, mode = query.plain(streams), "update" if query.key else "append"
    written = folder / "results"

    def write(rows: DataFrame, batch: int) -> None:
        rows.write.mode("overwrite").parquet(str(written / f"{_BATCH}={batch}"))

    batches = run_to_end(answered, folder, mode, write).recentProgress
    columns = StructType([*answered.schema.fields, StructField(_BATCH, IntegerType())])
    rows = spark.read.schema(columns).parquet(str(written))
    return Run(
        tuple(int(batch["numInputRows"]) for batch in batches),
        tuple(batch["durationMs"]["triggerExecution"] / 1000 for batch in batches),
        in_order(latest(rows, query).where(query.counts)),
    )


def latest(rows: DataFrame, query: Query) -> DataFrame:
    """Return the last row of each key, or all rows if none replaces another."""
    if not query.key:
        return rows.drop(_BATCH)
    names = [name for name in rows.columns if name != _BATCH]
    others = [name for name in names if name not in query.key]
    last = F.max_by(F.struct(*others), _BATCH).alias("last")
    return rows.groupBy(*query.key).agg(last).select(*query.key, "last.*").select(*names)


def in_order(rows: DataFrame) -> pa.Table:
    """Return the rows as a table, ordered by all columns."""
    table = rows.toArrow()
    ordered = table.sort_by([(name, "ascending") for name in table.column_names])
    # Whether a column is nullable is not part of the results.
    return ordered.cast(pa.schema([(field.name, field.type) for field in table.schema]))
