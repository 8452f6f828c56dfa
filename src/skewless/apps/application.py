"""What all applications have in common: columns by their role, a batch, a stream, a ranking."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, TimestampNTZType, TimestampType

from skewless.apps.records.outputs import ledger_beside
from skewless.apps.running.streams import finish
from skewless.arguments import text
from skewless.spark.aggregation.windows import microseconds
from skewless.spark.columns import existing, quoted
from skewless.spark.routing.route import DEFAULT_STRATEGY
from skewless.strategy import AnyStrategy


@dataclass(frozen=True, kw_only=True)
class Application(ABC):
    """Something that is computed from records with keys, in a batch or on a stream.

    A subclass has one field for each column that it reads: the field is the role of the column, and
    its value is the name that the column has. The results have the names of the roles.

    Parameters
    ----------
    strategy
        How the records are routed.
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
        """Refuse what cannot be the name of a column."""
        for option, names in self.columns().items():
            for name in names:
                text(name, option, "the name of a column")

    def columns(self) -> dict[str, tuple[str, ...]]:
        """Return the names of the columns that are read, by option."""
        found = {role: getattr(self, role) for role in self.roles}
        return {f"--{role}": (name,) for role, name in found.items() if name is not None}

    @property
    def about(self) -> tuple[str, ...]:
        """The columns of the results that say what a row is about."""
        return ("window", self.roles[0])

    @property
    @abstractmethod
    def mode(self) -> str:
        """How a stream is written: "complete" or "append"."""

    @abstractmethod
    def compute(self, records: DataFrame, ledger: str | None = None) -> DataFrame:
        """Return what is found, before `choose`."""

    def choose(self, found: DataFrame) -> DataFrame:
        """Return what the user wants to see of it; never a stream."""
        return found

    def require_stream(self) -> None:  # noqa: B027 - most applications can
        """Raise ValueError where this cannot be computed on a stream."""

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
    ) -> None:
        """Run on a stream until there is nothing left to read; results go to `output`, Parquet.

        A later run with the same checkpoint goes on where this one ended. The ledger lies beside
        the checkpoint. `progress` is told the number of micro-batches that are done.
        """
        self.require_stream()
        found = self.compute(records, ledger_beside(checkpoint))
        complete = self.mode == "complete"

        def write(rows: DataFrame, batch: int) -> None:
            # A batch that is run again replaces what it has written before.
            where = output if complete else f"{output}/batch={batch}"
            self.choose(rows).write.mode("overwrite").parquet(where)
            progress(batch + 1)

        finish(
            found.writeStream.outputMode(self.mode)
            .option("checkpointLocation", checkpoint)
            .foreachBatch(write)
            .trigger(availableNow=True)
        )

    def read(self, records: DataFrame) -> DataFrame:
        """Return the columns that are read, under the names of their roles.

        The files of some formats hold texts only: these become the numbers and times that they are.
        """
        chosen = []
        for role in self.roles:
            name = getattr(self, role)
            if name is not None:
                chosen.append(self._typed(records, role, name).alias(role))
        return records.select(*chosen)

    def _typed(self, records: DataFrame, role: str, name: str) -> Column:
        existing(records, name, f"--{role}")
        if role == "time":
            return as_time(records, name)
        column = F.col(quoted(name))
        is_text = isinstance(records.schema[name].dataType, StringType)
        return column.cast("double") if is_text and role in self.numbers else column


def as_time(records: DataFrame, name: str) -> Column:
    """Return a column as times: texts are read, and numbers are seconds since 1970."""
    column = F.col(quoted(name))
    kind = records.schema[name].dataType
    if isinstance(kind, TimestampType | TimestampNTZType):
        return column
    if isinstance(kind, StringType):
        # Spark would take a text of four digits for a year, and refuse longer ones.
        seconds = column.try_cast("double")
        return F.when(seconds.isNotNull(), seconds.cast("timestamp")).otherwise(
            column.cast("timestamp")
        )
    return column.cast("timestamp")


def require_duration(option: str, duration: str | None, least: int = 0) -> None:
    """Raise ValueError unless this is a duration of at least so many microseconds, or None."""
    if duration is None:
        return
    try:
        length = microseconds(duration)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None
    if length < least:
        raise ValueError(f"{option} must be {'above' if least else 'at least'} 0, not {duration!r}")
