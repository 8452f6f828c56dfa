"""The base class of all applications over one table: columns by role, texts as times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, TimestampNTZType, TimestampType

from skewless.apps.computation import Computation
from skewless.plumbing.arguments import text
from skewless.spark.aggregation.windows import WINDOW, microseconds
from skewless.spark.columns import quoted
from skewless.spark.records import Records


@dataclass(frozen=True, kw_only=True)
class Application(Computation[DataFrame]):
    """A computation over one table of records, whose columns may have any names.

    A subclass has one field for each column that it reads: the field is the role of the column, and
    its value is the name of the column. The results have the names of the roles.
    """

    #: The fields that name columns, in the order of the columns.
    roles: ClassVar[tuple[str, ...]] = ()
    #: Those whose columns hold numbers.
    numbers: ClassVar[tuple[str, ...]] = ()

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
        """The columns of the results that identify a row."""
        return (WINDOW, self.roles[0])

    def read(self, records: DataFrame) -> DataFrame:
        """Return the columns that are read, under the names of their roles.

        Some formats only hold texts: these become numbers and times where a role needs them.
        """
        chosen = []
        for role in self.roles:
            name = getattr(self, role)
            if name is not None:
                chosen.append(self._typed(records, role, name).alias(role))
        return records.select(*chosen)

    def _typed(self, records: DataFrame, role: str, name: str) -> Column:
        Records.of(records).existing(name, f"--{role}")
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
    """Raise ValueError unless this is a duration of at least this many microseconds, or None."""
    if duration is None:
        return
    try:
        length = microseconds(duration)
    except ValueError as error:
        raise ValueError(f"{option}: {error}") from None
    if length < least:
        raise ValueError(f"{option} must be {'above' if least else 'at least'} 0, not {duration!r}")
