"""Runs a query as a stream over files to its end; keeps batch times and results."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from skewless.apps.public.query import Query
from skewless.apps.running.streams import finish

_BATCH = "batch"


@dataclass(frozen=True)
class Run:
    """One query, run in one way.

    Parameters
    ----------
    n_records
        What each micro-batch read.
    seconds
        What each took. Those that only close windows have one record, or none.
    results
        The final results, in order.
    """

    n_records: tuple[int, ...]
    seconds: tuple[float, ...]
    results: pa.Table


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
    reader = spark.readStream.option("maxFilesPerTrigger", 1)
    streams = [reader.schema(schemas[name]).parquet(str(inputs / name)) for name in query.reads]
    if ours:
        answered, mode = query.ours(streams, str(folder / "ledger")), query.our_mode
    else:
        answered, mode = query.plain(streams), query.mode
    written = folder / "results"

    def write(rows: DataFrame, batch: int) -> None:
        rows.write.mode("overwrite").parquet(str(written / f"{_BATCH}={batch}"))

    with _settings(spark, {} if ours else query.plain_settings):
        ended = finish(
            answered.writeStream.outputMode(mode)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .foreachBatch(write)
            .trigger(availableNow=True)
        )
    batches = ended.recentProgress
    columns = StructType([*answered.schema.fields, StructField(_BATCH, IntegerType())])
    rows = spark.read.schema(columns).parquet(str(written))
    return Run(
        tuple(int(batch["numInputRows"]) for batch in batches),
        tuple(batch["durationMs"]["triggerExecution"] / 1000 for batch in batches),
        in_order(latest(rows, query).where(query.counts)),
    )


@contextlib.contextmanager
def _settings(spark: SparkSession, chosen: Mapping[str, str]) -> Iterator[None]:
    """Set these settings of the session, and restore the earlier ones at the end."""
    before = {name: spark.conf.get(name, None) for name in chosen}
    for name, value in chosen.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


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
