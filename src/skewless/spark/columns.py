"""Names and types of columns, without a DataFrame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from skewless.spark.arrow_types import NoArrowType, to_arrow_schema

_PREFIX = "__skewless_"  # of internal columns, which users do not see


def internal(name: str) -> str:
    """Return the name of an internal column."""
    return _PREFIX + name


def is_internal(name: str) -> bool:
    """Return whether a name is one of ours; Spark may ignore upper and lower case."""
    return name.lower().startswith(_PREFIX)


def quoted(name: str) -> str:
    """Return any column name, quoted for Spark's expressions.

    >>> quoted("price.`usd`")
    '`price.``usd```'
    """
    return "`" + name.replace("`", "``") + "`"


def arrow_schema(schema: T.StructType, argument: str) -> pa.Schema:
    """Return the Arrow schema, everything nullable; raise ValueError if Arrow lacks a type."""
    for field in schema.fields:
        if is_collated(field.dataType):
            raise ValueError(
                f"{argument}: column {field.name!r} is of type {field.dataType.simpleString()}, "
                "and text is compared by its bytes here: cast it to string"
            )
    try:
        return to_arrow_schema(nullable(schema))
    except NoArrowType as error:
        kinds = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in schema.fields)
        raise ValueError(f"{argument}: Arrow has no type for this ({kinds}): {error}") from error


def can_be_hashed(kind: T.DataType) -> bool:
    """Return whether Spark has a hash for values of this type."""
    return not is_made_of(kind, lambda part: isinstance(part, T.MapType | T.VariantType))


def like_spark_groups(column: Column, kind: T.DataType) -> Column:
    """Return the key column as `groupBy` takes it: one NaN, and no negative zero, at any depth."""
    if not is_made_of(kind, lambda part: isinstance(part, T.DoubleType | T.FloatType)):
        return column
    if isinstance(kind, T.ArrayType):
        return F.transform(column, lambda item: like_spark_groups(item, kind.elementType))
    if isinstance(kind, T.StructType):
        fields = [
            like_spark_groups(column.getField(field.name), field.dataType).alias(field.name)
            for field in kind.fields
        ]
        return F.when(column.isNotNull(), F.struct(*fields))
    if isinstance(kind, T.DoubleType | T.FloatType):
        nan = F.lit(float("nan")).cast(kind)
        zero = F.lit(0.0).cast(kind)
        return F.when(F.isnan(column), nan).when(column == zero, zero).otherwise(column)
    return column


def is_made_of(kind: Any, matches: Callable[[Any], bool]) -> bool:
    """Return whether a type, or one that it is made of, matches."""
    if matches(kind):
        return True
    parts = [field.dataType for field in getattr(kind, "fields", [])]
    inner = ("elementType", "keyType", "valueType")
    parts += [getattr(kind, part) for part in inner if hasattr(kind, part)]
    return any(is_made_of(part, matches) for part in parts)


def is_collated(kind: T.DataType) -> bool:
    """Return whether a type is, or is made of, text that is not compared by its bytes."""
    return is_made_of(
        kind, lambda part: isinstance(part, T.StringType) and not part.isUTF8BinaryCollation()
    )


def nullable(kind: Any) -> Any:
    """Return the type with nulls allowed everywhere, as in the Arrow data that Spark sends."""
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(f.name, nullable(f.dataType)) for f in kind.fields])
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(nullable(kind.elementType), True)
    if isinstance(kind, T.MapType):
        return T.MapType(nullable(kind.keyType), nullable(kind.valueType), True)
    return kind
