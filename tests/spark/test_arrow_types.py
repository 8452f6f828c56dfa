"""Types between Spark and Arrow: as Spark itself sends them, and back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import types as T

from skewless.spark.arrow_types import (
    NoArrowType,
    from_arrow_schema,
    from_arrow_type,
    to_arrow_schema,
    to_arrow_type,
)

SCHEMA = """
    b boolean, i8 tinyint, i16 smallint, i32 int, i64 bigint, f float, d double, s string,
    x binary, day date, at timestamp, local timestamp_ntz, long interval day to second,
    n decimal(38,18), l array<array<int>>, m map<string, struct<a: date, b: timestamp_ntz>>,
    r struct<a: decimal(5,2), b: struct<c: timestamp>>, nothing void
"""


def parsed(spark: Any) -> T.StructType:
    schema: T.StructType = spark.createDataFrame([], SCHEMA).schema
    return schema


@pytest.mark.spark
def test_types_are_those_of_the_data_that_spark_sends(spark: Any) -> None:
    sent = spark.createDataFrame([], SCHEMA).toArrow().schema
    ours = to_arrow_schema(parsed(spark))
    assert [f.name for f in ours] == [f.name for f in sent]
    for field in sent:
        # Spark sends times in the zone of the session, which is UTC in the tests.
        assert ours.field(field.name).type == field.type, field.name


@pytest.mark.spark
def test_types_come_back_as_they_were(spark: Any) -> None:
    schema = parsed(spark)
    assert from_arrow_schema(to_arrow_schema(schema)) == schema
    narrow = T.StructType(
        [
            T.StructField("l", T.ArrayType(T.LongType(), False), False),
            T.StructField("m", T.MapType(T.StringType(), T.DateType(), False)),
        ]
    )
    assert from_arrow_schema(to_arrow_schema(narrow)) == narrow


def test_a_variant_that_arrow_writes_as_a_struct_comes_back() -> None:
    kind = T.ArrayType(T.VariantType())
    assert from_arrow_type(to_arrow_type(kind)) == kind


@pytest.mark.parametrize(
    ("arrow", "spark_type"),
    [
        (pa.large_string(), T.StringType()),
        (pa.large_binary(), T.BinaryType()),
        (pa.binary(4), T.BinaryType()),
        (pa.large_list(pa.int8()), T.ArrayType(T.ByteType())),
        (pa.list_(pa.float32(), 3), T.ArrayType(T.FloatType())),
        (pa.dictionary(pa.int32(), pa.string()), T.StringType()),
        (pa.timestamp("ms"), T.TimestampNTZType()),
        (pa.timestamp("s", "Asia/Tokyo"), T.TimestampType()),
        (pa.duration("ms"), T.DayTimeIntervalType()),
        (pa.struct([("value", pa.binary()), ("metadata", pa.binary())]), None),
    ],
)
def test_other_types_of_arrow_become_the_nearest(arrow: Any, spark_type: Any) -> None:
    found = from_arrow_type(arrow)
    assert isinstance(found, T.StructType) if spark_type is None else found == spark_type


def test_types_that_one_side_lacks_are_named() -> None:
    with pytest.raises(NoArrowType, match="interval year to month"):
        to_arrow_type(T.YearMonthIntervalType())
    with pytest.raises(NoArrowType, match="geometry"):
        to_arrow_type(T.GeometryType(4326))
    with pytest.raises(NoArrowType, match="uint8"):
        from_arrow_type(pa.uint8())
