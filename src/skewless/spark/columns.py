"""Columns that a user names, checked against the DataFrame before anything runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from skewless import parameters
from skewless.plumbing.arguments import shown
from skewless.spark.arrow_types import NoArrowType, to_arrow_schema
from skewless.spark.error_lines import first_line

Key: TypeAlias = str | Column | Sequence[str | Column]
_PREFIX = "__skewless_"  # of internal columns, which users do not see


def internal(name: str) -> str:
    """Return the name of an internal column."""
    return _PREFIX + name


def quoted(name: str) -> str:
    """Return any column name, quoted for Spark's expressions.

    >>> quoted("price.`usd`")
    '`price.``usd```'
    """
    return "`" + name.replace("`", "``") + "`"


def require_dataframe(df: object) -> None:
    """Raise ValueError unless this is a DataFrame."""
    if not isinstance(df, DataFrame):
        raise ValueError(f"df must be a Spark DataFrame, not {shown(df)}")


def existing(df: DataFrame, name: str, argument: str) -> str:
    """Return `name`, a column of `df`; raise ValueError that names the argument otherwise."""
    if not isinstance(name, str):
        raise ValueError(f"{argument} must be the name of a column, not {shown(name)}")
    there = df.columns
    if name not in there:
        message = parameters.nearest(name, there, "column")
        raise ValueError(f"{argument}: {message}; the DataFrame has {', '.join(there)}")
    alike = [column for column in there if column.lower() == name.lower()]
    # Reading a setting of Spark is a round trip, so it is read only where it matters.
    if len(alike) > 1 and sum(alike_to_spark(df, column, name) for column in alike) > 1:
        raise ValueError(
            f"{argument}: column {name!r} is ambiguous: the DataFrame has {', '.join(there)}; "
            "rename all but one of those with this name"
        )
    return name


def named(df: DataFrame, text: str, argument: str) -> Column:
    """Return the column that a text names: of `df`, or else a nested field or an SQL expression.

    A column with exactly this name comes first, even if the name has dots.
    """
    if not isinstance(text, str) or text in df.columns or re.fullmatch(r"\w*", text.strip()):
        return df[quoted(existing(df, text, argument))]
    try:
        column = F.expr(text)
        df.select(column)
    except PySparkException as error:
        message = parameters.nearest(text, df.columns, "column")
        raise ValueError(
            f"{argument}: {message}; the DataFrame has {', '.join(df.columns)}; and it is not an "
            f"SQL expression of them: {first_line(error)}"
        ) from error
    computed(df, column, argument)
    return column


def alike_to_spark(df: DataFrame, one: str, other: str) -> bool:
    """Return whether Spark takes two names for the same: by default, it ignores case."""
    if df.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true":
        return one == other
    return one.lower() == other.lower()


@dataclass(frozen=True)
class GroupingKey:
    """The key of a DataFrame, resolved once: its columns, their names and their types."""

    columns: tuple[Column, ...]
    names: tuple[str, ...]
    fields: tuple[StructField, ...]

    @property
    def grouped(self) -> list[Column]:
        """The columns as `groupBy` takes them."""
        pairs = zip(self.columns, self.fields, strict=True)
        return [like_spark_groups(column, field.dataType) for column, field in pairs]

    @property
    def named_fields(self) -> list[StructField]:
        """The types under the names of the key, with nothing else that Spark knows of a column."""
        pairs = zip(self.names, self.fields, strict=True)
        return [StructField(name, field.dataType) for name, field in pairs]


def grouping_key(df: DataFrame, key: Key) -> GroupingKey:
    """Return the key that a user gave; raise ValueError unless `df` has it."""
    if not isinstance(key, str | Column | Sequence) or isinstance(key, bytes | bytearray):
        raise ValueError(f"key must be a column, its name, or several of them, not {shown(key)}")
    parts = [key] if isinstance(key, str | Column) else list(key)
    if not parts:
        raise ValueError(f"key must name at least one column, not {shown(key)}")
    columns: list[Column] = []
    names: list[str] = []
    for part in parts:
        if isinstance(part, Column):
            names.append(computed(df, part, "key").name)
            columns.append(part)
        else:
            column = named(df, part, "key")
            names.append(part if part in df.columns else df.select(column).columns[0])
            columns.append(column)
    if len(set(names)) < len(names):
        raise ValueError(f"key names a column twice: {', '.join(names)}")
    fields = df.select(*columns).schema.fields
    for name, field in zip(names, fields, strict=True):
        if _some(field.dataType, lambda kind: isinstance(kind, MapType | VariantType)):
            kind = field.dataType.simpleString()
            raise ValueError(f"key: column {name!r} is of type {kind}, which Spark cannot hash")
    return GroupingKey(tuple(columns), tuple(names), tuple(fields))


def computed(df: DataFrame, column: Column, argument: str) -> StructField:
    """Return the field that a Column of `df` is; raise ValueError that names the argument."""
    try:
        fields = df.select(column).schema.fields
    except PySparkException as error:
        raise ValueError(
            f"{argument}: {shown(column)} cannot be computed from the DataFrame, "
            f"which has {', '.join(df.columns)}: {first_line(error)}"
        ) from error
    if len(fields) != 1:
        raise ValueError(
            f"{argument}: {shown(column)} is {len(fields)} columns; name each, or select them first"
        )
    try:
        df.where(column.isNotNull())  # allows exactly what has one value for each record
    except PySparkException as error:
        raise ValueError(
            f"{argument}: {shown(column)} must have one value for each record; an aggregate, a "
            "generator or a window function has none: add it to the DataFrame first, as a column"
        ) from error
    return fields[0]


def arrow_schema(schema: StructType, argument: str) -> pa.Schema:
    """Return the Arrow schema, everything nullable; raise ValueError if Arrow lacks a type."""
    for field in schema.fields:
        if is_collated(field.dataType):
            raise ValueError(
                f"{argument}: column {field.name!r} is of type {field.dataType.simpleString()}, "
                "and text is compared by its bytes here: cast it to string"
            )
    try:
        return to_arrow_schema(_nullable(schema))
    except NoArrowType as error:
        kinds = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in schema.fields)
        raise ValueError(f"{argument}: Arrow has no type for this ({kinds}): {error}") from error


def require_arrow_types(schema: StructType, argument: str) -> None:
    """Raise ValueError that names the column if Arrow lacks its type."""
    arrow_schema(schema, argument)


def require_arrow_key(key: GroupingKey) -> None:
    """Raise ValueError that names the column if a part of the key has no Arrow type."""
    require_arrow_types(StructType([*key.fields]), "key")


def like_spark_groups(column: Column, kind: DataType) -> Column:
    """Return the key column as `groupBy` takes it: one NaN, and no negative zero, at any depth."""
    if not _some(kind, lambda part: isinstance(part, DoubleType | FloatType)):
        return column
    if isinstance(kind, ArrayType):
        return F.transform(column, lambda item: like_spark_groups(item, kind.elementType))
    if isinstance(kind, StructType):
        fields = [
            like_spark_groups(column.getField(field.name), field.dataType).alias(field.name)
            for field in kind.fields
        ]
        return F.when(column.isNotNull(), F.struct(*fields))
    if isinstance(kind, DoubleType | FloatType):
        nan = F.lit(float("nan")).cast(kind)
        zero = F.lit(0.0).cast(kind)
        return F.when(F.isnan(column), nan).when(column == zero, zero).otherwise(column)
    return column


def _some(kind: Any, matches: Callable[[Any], bool]) -> bool:
    """Return whether a type, or one that it is made of, matches."""
    if matches(kind):
        return True
    parts = [field.dataType for field in getattr(kind, "fields", [])]
    inner = ("elementType", "keyType", "valueType")
    parts += [getattr(kind, part) for part in inner if hasattr(kind, part)]
    return any(_some(part, matches) for part in parts)


def is_collated(kind: DataType) -> bool:
    """Return whether a type is, or holds, text that is not compared by its bytes."""
    return _some(kind, lambda k: isinstance(k, StringType) and not k.isUTF8BinaryCollation())


def _nullable(kind: Any) -> Any:
    """Return the type with nulls allowed everywhere, as in the Arrow data that Spark sends."""
    if isinstance(kind, StructType):
        return StructType([StructField(f.name, _nullable(f.dataType), True) for f in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType), True)
    if isinstance(kind, MapType):
        return MapType(_nullable(kind.keyType), _nullable(kind.valueType), True)
    return kind
