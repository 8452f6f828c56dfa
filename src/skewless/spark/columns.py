"""Columns that a user names, checked against the DataFrame before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, FloatType, MapType, VariantType

from skewless import parameters

Key: TypeAlias = str | Column | Sequence[str | Column]
_PREFIX = "__skewless_"  # of columns that are ours and that users do not see


def internal(name: str) -> str:
    """Return the name of a column of ours."""
    return _PREFIX + name


def existing(df: DataFrame, name: str, argument: str) -> str:
    """Return `name`, a column of `df`; raise ValueError that names the argument otherwise."""
    if not isinstance(name, str):
        raise ValueError(f"{argument} must be the name of a column, not {name!r}")
    if name not in df.columns:
        message = parameters.nearest(name, df.columns, "column")
        raise ValueError(f"{argument}: {message}; the DataFrame has {', '.join(df.columns)}")
    return name


def key_columns(df: DataFrame, key: Key) -> tuple[list[Column], list[str]]:
    """Return the key's columns and their names; raise ValueError unless `df` has them."""
    parts = [key] if isinstance(key, str | Column) else list(key)
    if not parts:
        raise ValueError("key must name at least one column, not an empty list")
    columns: list[Column] = []
    names: list[str] = []
    for part in parts:
        if isinstance(part, Column):
            try:
                names.append(df.select(part).columns[0])
            except AnalysisException as error:
                raise ValueError(
                    f"key: {part!r} cannot be computed from the DataFrame: {error}"
                ) from error
            columns.append(part)
        else:
            names.append(existing(df, part, "key"))
            columns.append(df[f"`{part}`"])
    if len(set(names)) < len(names):
        raise ValueError(f"key names a column twice: {', '.join(names)}")
    for name, field in zip(names, df.select(*columns).schema.fields, strict=True):
        if _has(field.dataType, MapType | VariantType):
            kind = field.dataType.simpleString()
            raise ValueError(f"key: column {name!r} is of type {kind}, which Spark cannot hash")
    return columns, names


def like_spark_groups(column: Column, kind: DataType) -> Column:
    """Return the key column as `groupBy` takes it: one NaN, and no negative zero."""
    if isinstance(kind, DoubleType | FloatType):
        nan = F.lit(float("nan")).cast(kind)
        zero = F.lit(0.0).cast(kind)
        return F.when(F.isnan(column), nan).when(column == zero, zero).otherwise(column)
    return column


def _has(kind: Any, wanted: Any) -> bool:
    if isinstance(kind, wanted):
        return True
    parts = [field.dataType for field in getattr(kind, "fields", [])]
    parts += [kind.elementType] if hasattr(kind, "elementType") else []
    return any(_has(part, wanted) for part in parts)
