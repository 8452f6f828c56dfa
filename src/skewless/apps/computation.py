"""The base class of applications on Spark, as a batch or on a stream, and where they write."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import StringType, TimestampNTZType, TimestampType

from skewless.plumbing.arguments import text
from skewless.spark import records as spark_records
from skewless.spark.aggregation.windows import WINDOW, microseconds
from skewless.spark.columns import quoted
from skewless.spark.routing.route import DEFAULT_STRATEGY
from skewless.strategy import AnyStrategy
from skewless.workloads.trace import is_remote

#: A stream that appends writes a folder for each micro-batch, by the number in this column.
BATCH = "skewless_batch"
_OURS = (".parquet", ".crc", "_SUCCESS")
_LOOK_EVERY_S = 0.1


@dataclass(frozen=True, kw_only=True)
class Application(ABC):
    """Something that is computed from records with keys, in a batch or on a stream.

    The columns of the records may have any names. A subclass has one field for each column that it
    reads: the field is the role of the column, and its value is the name of the column. The results
    have the names of the roles.

    Parameters
    ----------
    strategy
        How the records are routed: a strategy or its name. An application that aggregates also
        accepts the forms of `aggregate`: "auto", "plain", "local".
    workers
        The number of workers; None: Spark's number of shuffle partitions.
    seed
        Of the routing; None: see `aggregate`.
    """

    #: The fields that name columns, in the order of the columns.
    roles: ClassVar[tuple[str, ...]] = ()
    #: Those whose columns hold numbers.
    numbers: ClassVar[tuple[str, ...]] = ()
    #: The columns of the results that rank them, the largest first.
    ranks: ClassVar[tuple[str, ...]] = ()

    strategy: str | AnyStrategy = DEFAULT_STRATEGY
    workers: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        for option, names in self.columns().items():
            for name in names:
                text(name, option, "the name of a column")

    def columns(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the columns that are read, by option."""
        found = {role: getattr(self, role) for role in self.roles}
        return {f"--{role}": (name,) for role, name in found.items() if name is not None}

    @property
    def about(self) -> tuple[str, ...]:
        """The columns of the results that identify a row; all others are numbers."""
        return (WINDOW, self.roles[0])

    @property
    def mode(self) -> str:
        """How a stream is written: "complete" or "append"."""
        return "append"

    @abstractmethod
    def compute(self, records: DataFrame, ledger: str | None = None) -> DataFrame:
        """Return all results, before `choose`."""

    def choose(self, found: DataFrame) -> DataFrame:
        """Return the results that the user asked for; `found` is never a stream."""
        return found

    def batch_column(self) -> str | None:
        """Return the column that numbers micro-batches; None: each replaces the rest.

        Raise ValueError if the results have a column of that name.
        """
        if self.mode == "complete":
            return None
        if BATCH in self.about:  # it would be lost
            raise ValueError(
                f"--key: {BATCH!r} cannot be a column here: folders of micro-batches have this "
                "name; rename it"
            )
        return BATCH

    def of(self, records: DataFrame) -> DataFrame:
        """Return the results of a batch."""
        return self.choose(self.compute(records))

    def ranked(self, results: DataFrame, n: int) -> DataFrame:
        """Return the first results by rank, and by the other columns among equal ones."""
        names = [name for name in results.columns if name not in self.ranks]
        order = [F.desc(quoted(name)) for name in self.ranks]
        return results.orderBy(*order, *(F.asc(quoted(name)) for name in names)).limit(n)

    def stream(
        self,
        records: DataFrame,
        output: str,
        checkpoint: str,
        progress: Callable[[int], None] = lambda done: None,
    ) -> StreamingQuery:
        """Run on a stream until there is nothing left to read; results go to `output`, Parquet.

        A later run with the same checkpoint resumes where this one ended. The ledger is beside the
        checkpoint. `progress` gets the number of finished micro-batches. The returned query has
        ended; its progress has the times of the micro-batches.
        """
        column = self.batch_column()
        found = self.compute(records, ledger_beside(checkpoint))
        return write_stream(found, self.mode, output, checkpoint, progress, column, self.choose)

    def read(self, records: DataFrame) -> DataFrame:
        """Return the columns that are read, under the names of their roles.

        Some formats only hold texts: these become numbers and times where a role needs them.
        """
        names = {role: getattr(self, role) for role in self.roles}
        chosen = []
        for role, name in names.items():
            if name is None:
                continue
            spark_records.Records.of(records).existing(name, f"--{role}")
            column = as_time(records, name) if role == "time" else F.col(quoted(name))
            if role in self.numbers and isinstance(records.schema[name].dataType, StringType):
                column = column.cast("double")
            chosen.append(column.alias(role))
        return records.select(*chosen)


def as_time(records: DataFrame, name: str) -> Column:
    """Return a column as times: texts are read, and numbers are seconds since 1970."""
    column = F.col(quoted(name))
    kind = records.schema[name].dataType
    if isinstance(kind, TimestampType | TimestampNTZType):
        return column
    if isinstance(kind, StringType):
        # Spark would take a text of four digits for a year, and refuse longer ones.
        seconds = column.try_cast("double")
        is_number = seconds.isNotNull()
        return F.when(is_number, seconds.cast("timestamp")).otherwise(column.cast("timestamp"))
    return column.cast("timestamp")


def require_duration(option: str, duration: str | None, least: int = 0) -> None:
    """Raise ValueError unless this is a duration of at least this many microseconds, or None."""
    if duration is None:
        return
    try:
        length = microseconds(duration)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None
    if length < least:
        raise ValueError(f"{option} must be {'above' if least else 'at least'} 0, not {duration!r}")


def write_stream(
    found: DataFrame,
    mode: str,
    output: str,
    checkpoint: str,
    progress: Callable[[int], None],
    column: str | None,
    choose: Callable[[DataFrame], DataFrame] = lambda rows: rows,
) -> StreamingQuery:
    """Run a stream until there is nothing left to read; write its results as Parquet.

    A micro-batch has its own folder, named by its number in this column, or replaces the rest if
    there is no column. `progress` gets the number of finished ones.
    """

    def write(rows: DataFrame, batch: int) -> None:
        # A batch that runs again replaces what it wrote before.
        where = output if column is None else f"{output}/{column}={batch}"
        choose(rows).write.mode("overwrite").parquet(where)
        progress(batch + 1)

    return finish(
        found.writeStream.outputMode(mode)
        .option("checkpointLocation", checkpoint)
        .foreachBatch(write)
        .trigger(availableNow=True)
    )


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


def ledger_beside(checkpoint: str) -> str:
    """Return the folder of the ledger that goes with a checkpoint.

    >>> ledger_beside("s3a://bucket/words/")
    's3a://bucket/words.ledger'
    """
    return checkpoint.rstrip("/") + ".ledger"


def is_begun(checkpoint: str) -> bool:
    """Return whether a stream has used this checkpoint, if that can be seen here."""
    return Path(checkpoint).is_dir() and any(Path(checkpoint).iterdir())


def require_writable(output: str, going_on: bool) -> None:
    """Raise ValueError if results would overwrite other files, if that can be seen here.

    `going_on` says that an earlier run of the same stream has written there already.
    """
    path = Path(output)
    if is_remote(output) or not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not going_on:
        raise ValueError(f"--output: {output!r} exists already; give another path or remove it")
    strange = [
        file
        for file in path.rglob("*")
        if not file.name.endswith(_OURS) and not (file.is_dir() and "batch=" in file.name)
    ]
    if not path.is_dir() or strange:
        raise ValueError(f"--output: {output!r} holds files that are not results of an earlier run")


def json_lines(results: DataFrame) -> Iterator[str]:
    """Yield every result as Spark writes it in JSON, with its nulls."""
    lines = results.select(F.to_json(F.struct("*"), {"ignoreNullFields": "false"}))
    return (row[0] for row in lines.toLocalIterator())
