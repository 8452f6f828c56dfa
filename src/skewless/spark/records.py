"""The records of a verb: a DataFrame, its columns and types, and its key, resolved once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from skewless import parameters
from skewless.plumbing.arguments import shown
from skewless.spark import columns as column_types
from skewless.spark.columns import arrow_schema, is_collated, is_internal, quoted

Key: TypeAlias = str | Column | Sequence[str | Column]


def first_line(error: Exception) -> str:
    r"""Return the first line of an error's message that is not blank, or its type.

    >>> first_line(ValueError("\n  no such column; \n'Project")), first_line(ValueError())
    ('no such column', 'ValueError')
    """
    lines = (line.strip() for line in str(error).splitlines() if line.strip())
    return next(lines, type(error).__name__).rstrip(";")


@dataclass(frozen=True)
class GroupingKey:
    """The key of a DataFrame: its columns, their names and their types."""

    columns: tuple[Column, ...] = ()
    names: tuple[str, ...] = ()
    fields: tuple[T.StructField, ...] = ()

    @property
    def grouped(self) -> list[Column]:
        """The columns as `groupBy` takes them."""
        kinds = [field.dataType for field in self.fields]
        return list(map(column_types.like_spark_groups, self.columns, kinds))

    @property
    def named_fields(self) -> list[T.StructField]:
        """The types under the names of the key, with nothing else that Spark knows of a column."""
        kinds = [field.dataType for field in self.fields]
        return list(map(T.StructField, self.names, kinds))

    @property
    def is_collated(self) -> bool:
        """Whether keys can be equal though their bytes, and so their hashes, differ."""
        return any(is_collated(field.dataType) for field in self.fields)

    def require_arrow_types(self) -> None:
        """Raise ValueError that names the column if a part of the key has no Arrow type."""
        arrow_schema(T.StructType([*self.fields]), "key")


@dataclass(frozen=True, eq=False)
class Records:
    """What a user gave to a verb: Spark is asked for names, types and the key once.

    Methods that check what a user names raise ValueError, and the message names the argument.
    """

    df: DataFrame
    schema: T.StructType
    key: GroupingKey = GroupingKey()

    @classmethod
    def of(cls, df: Any, argument: str = "df") -> Records:
        """Return the records of a DataFrame, without a key."""
        if not isinstance(df, DataFrame):
            raise ValueError(f"{argument} must be a Spark DataFrame, not {shown(df)}")
        return cls(df, df.schema)

    @classmethod
    def with_names(cls, df: Any, argument: str = "df") -> Records:
        """Return the same; all names must differ, because processors read columns by name."""
        records = cls.of(df, argument)
        for name in records.names:
            records.existing(name, argument)
        return records

    @property
    def names(self) -> list[str]:
        """The columns."""
        return self.schema.names

    @property
    def spark(self) -> Any:
        """The session."""
        return self.df.sparkSession

    @cached_property
    def is_stream(self) -> bool:
        """Whether this is a stream and not a batch."""
        return self.df.isStreaming

    def require_names(self, argument: str = "df") -> None:
        """Raise ValueError if a column is named like one that we add and drop again."""
        for name in filter(is_internal, self.names):
            raise ValueError(
                f"{argument}: column {name!r} is named like the columns that skewless adds: rename "
                "it"
            )

    def column(self, name: str) -> Column:
        """Return a column by its name."""
        return self.df[quoted(name)]

    def arrow_types(self, columns: Sequence[Column], argument: str) -> list[pa.DataType]:
        """Return the Arrow types of columns that were checked before."""
        return list(arrow_schema(self.df.select(*columns).schema, argument).types)

    def existing(self, name: str, argument: str) -> str:
        """Return `name`, a column that is there once."""
        if not isinstance(name, str):
            raise ValueError(f"{argument} must be the name of a column, not {shown(name)}")
        if name not in self.names:
            raise ValueError(f"{argument}: {self._unknown(name)}")
        alike = [column for column in self.names if column.lower() == name.lower()]
        # Reading a setting of Spark is a round trip, so it is read only where it matters.
        is_sensitive = len(alike) > 1 and self.spark.conf.get("spark.sql.caseSensitive") == "true"
        if alike.count(name) > 1 or (len(alike) > 1 and not is_sensitive):
            raise ValueError(
                f"{argument}: column {name!r} is ambiguous: the DataFrame has "
                f"{', '.join(self.names)}; rename all but one of those with this name"
            )
        return name

    def _unknown(self, name: str) -> str:
        message = parameters.nearest(name, self.names, "column")
        # Without a near one, all are named already.
        more = f" The DataFrame has {', '.join(self.names)}" if message.endswith("?") else ""
        return message + more

    def time(self, name: Any, argument: str) -> T.DataType:
        """Return the type of a column of times."""
        kind = self.schema[self.existing(name, argument)].dataType
        if not isinstance(kind, T.TimestampType | T.TimestampNTZType):
            text = f"column {name!r} must be a timestamp, not {kind.simpleString()}"
            raise ValueError(f"{argument}: {text}")
        return kind

    def named(self, text: str, argument: str) -> Column:
        """Return the column that a text names, or else a nested field or an SQL expression.

        A column with exactly this name comes first, even if the name has dots.
        """
        if not isinstance(text, str) or text in self.names or re.fullmatch(r"\w*", text.strip()):
            return self.column(self.existing(text, argument))
        try:
            column = F.expr(text)
            self.df.select(column)
        except PySparkException as error:
            raise ValueError(
                f"{argument}: {self._unknown(text)}; and it is not an SQL expression of them: "
                f"{first_line(error)}"
            ) from error
        self.computed(column, argument)
        return column

    def computed(self, column: Column, argument: str) -> T.StructField:
        """Return the field that a Column of these records is."""
        try:
            fields = self.df.select(column).schema.fields
        except PySparkException as error:
            raise ValueError(
                f"{argument}: {shown(column)} cannot be computed from the DataFrame, "
                f"which has {', '.join(self.names)}: {first_line(error)}"
            ) from error
        if len(fields) != 1:
            raise ValueError(
                f"{argument}: {shown(column)} is {len(fields)} columns; name each, or select them "
                "first"
            )
        try:
            self.df.where(column.isNotNull())  # allows exactly what has one value for each record
        except PySparkException as error:
            raise ValueError(
                f"{argument}: {shown(column)} must have one value for each record; an aggregate, "
                "a generator or a window function has none: add it to the DataFrame first, as a "
                "column"
            ) from error
        return fields[0]

    def by(self, key: Any) -> Records:
        """Return the records by the key that a user gave."""
        if not isinstance(key, str | Column | Sequence) or isinstance(key, bytes | bytearray):
            text = f"key must be a column, its name, or several of them, not {shown(key)}"
            raise ValueError(text)
        parts = [key] if isinstance(key, str | Column) else list(key)
        if not parts:
            raise ValueError(f"key must name at least one column, not {shown(key)}")
        columns = []
        for part in parts:
            columns.append(part if isinstance(part, Column) else self.named(part, "key"))
            if isinstance(part, Column):
                self.computed(part, "key")
        fields = self.df.select(*columns).schema.fields
        # A column that is named keeps the user's spelling.
        names = [
            part if isinstance(part, str) and part in self.names else field.name
            for part, field in zip(parts, fields, strict=True)
        ]
        if len(set(names)) < len(names):
            raise ValueError(f"key names a column twice: {', '.join(names)}")
        for name, field in zip(names, fields, strict=True):
            if not column_types.can_be_hashed(field.dataType):
                kind = field.dataType.simpleString()
                raise ValueError(f"key: column {name!r} is of type {kind}, which Spark cannot hash")
        return replace(self, key=GroupingKey(tuple(columns), tuple(names), tuple(fields)))
