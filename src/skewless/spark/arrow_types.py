"""Spark's types as Arrow types, and back, with public names of PySpark only.

PySpark converts types too, but its functions are private and change between versions: in 4.1 they
take other arguments and read times without a zone as times with one.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import types as T

#: Types without parameters. Longer texts and bytes come back as the usual ones.
_SIMPLE: tuple[tuple[type[T.DataType], pa.DataType], ...] = (
    (T.BooleanType, pa.bool_()),
    (T.ByteType, pa.int8()),
    (T.ShortType, pa.int16()),
    (T.IntegerType, pa.int32()),
    (T.LongType, pa.int64()),
    (T.FloatType, pa.float32()),
    (T.DoubleType, pa.float64()),
    (T.StringType, pa.string()),
    (T.BinaryType, pa.binary()),
    (T.DateType, pa.date32()),
    (T.TimestampType, pa.timestamp("us", "UTC")),
    (T.TimestampNTZType, pa.timestamp("us")),
    (T.DayTimeIntervalType, pa.duration("us")),
    (T.TimeType, pa.time64("ns")),
    (T.NullType, pa.null()),
)
#: Types of Arrow that Spark does not write.
_LIKE_SIMPLE: tuple[tuple[Callable[[pa.DataType], bool], type[T.DataType]], ...] = (
    (pt.is_large_string, T.StringType),
    (pt.is_large_binary, T.BinaryType),
    (pt.is_fixed_size_binary, T.BinaryType),
    (pt.is_duration, T.DayTimeIntervalType),
    (pt.is_time64, T.TimeType),
)


class NoArrowType(ValueError):  # noqa: N818 - it is read as a sentence
    """Spark or Arrow has no such type; the message names it."""


def to_arrow_schema(schema: T.StructType) -> pa.Schema:
    """Return the Arrow schema of a Spark schema, times in UTC, without metadata."""
    return pa.schema(list(_fields(schema)))


def from_arrow_schema(schema: pa.Schema) -> T.StructType:
    """Return the Spark schema of an Arrow schema, without metadata."""
    fields = [T.StructField(f.name, from_arrow_type(f.type), f.nullable) for f in schema]
    return T.StructType(fields)


def to_arrow_type(kind: T.DataType) -> pa.DataType:
    """Return the type of the Arrow data that Spark sends for a column of this type.

    >>> to_arrow_type(T.ArrayType(T.DecimalType(12, 2)))
    ListType(list<element: decimal128(12, 2)>)
    """
    if isinstance(kind, T.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, T.ArrayType):
        return pa.list_(pa.field("element", to_arrow_type(kind.elementType), kind.containsNull))
    if isinstance(kind, T.MapType):
        key = pa.field("key", to_arrow_type(kind.keyType), nullable=False)
        value = pa.field("value", to_arrow_type(kind.valueType), kind.valueContainsNull)
        return pa.map_(key, value)
    if isinstance(kind, T.StructType):
        return pa.struct(list(_fields(kind)))
    if isinstance(kind, T.UserDefinedType):
        return to_arrow_type(kind.sqlType())
    if isinstance(kind, T.VariantType):
        value = pa.field("value", pa.binary(), nullable=False)
        return pa.struct([value, pa.field("metadata", pa.binary(), False, {b"variant": b"true"})])
    for simple, arrow in _SIMPLE:
        if isinstance(kind, simple):
            return arrow
    raise NoArrowType(f"Arrow has no type for {kind.simpleString()}")


def from_arrow_type(kind: pa.DataType) -> T.DataType:
    """Return the type that Spark has for Arrow data of this type.

    >>> from_arrow_type(pa.timestamp("us")), from_arrow_type(pa.timestamp("us", "UTC"))
    (TimestampNTZType(), TimestampType())
    """
    simple = next((simple for simple, arrow in _SIMPLE if kind == arrow), None)
    simple = simple or next((other for test, other in _LIKE_SIMPLE if test(kind)), None)
    if simple is not None:
        return simple()
    if pt.is_decimal(kind):
        return T.DecimalType(kind.precision, kind.scale)
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        return T.ArrayType(from_arrow_type(kind.value_type), kind.value_field.nullable)
    if pt.is_map(kind):
        key, value = from_arrow_type(kind.key_type), from_arrow_type(kind.item_type)
        return T.MapType(key, value, kind.item_field.nullable)
    if pt.is_struct(kind):
        return T.VariantType() if _is_variant(kind) else from_arrow_schema(pa.schema(list(kind)))
    if pt.is_dictionary(kind):
        return from_arrow_type(kind.value_type)
    if pt.is_timestamp(kind):
        return T.TimestampNTZType() if kind.tz is None else T.TimestampType()
    raise NoArrowType(f"Spark has no type for Arrow's {kind}")


def _fields(schema: T.StructType) -> list[pa.Field]:
    return [pa.field(f.name, to_arrow_type(f.dataType), f.nullable) for f in schema.fields]


def _is_variant(kind: pa.StructType) -> bool:
    """Return whether the metadata of a struct's last field says that it is a variant."""
    names = [field.name for field in kind]
    return names == ["value", "metadata"] and (kind[1].metadata or {}).get(b"variant") == b"true"
