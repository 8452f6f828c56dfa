"""Keys are hashed as Spark compares them: in the common type of both sides."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import functions as F

from lanes import slow_except
from skewless.spark import join, plan_join
from spark.joins.tables import assert_same, hand_made, plain

pytestmark = pytest.mark.spark

#: The types of the key on both sides, and its values.
COMPARED = {
    "int and bigint": ("int", "bigint", "1, 2, 3, null", "2, 2, 3, 4, 9999999999"),
    "tinyint and smallint": ("tinyint", "smallint", "1, -2, 3", "-2, 300, 3"),
    "decimals": ("decimal(10,2)", "decimal(12,4)", "1.50, 2.25, 3", "1.5, 2.2500, 2.2501"),
    "int and decimal": ("int", "decimal(12,4)", "1, 2, 3", "1, 2.5, 3.0000"),
    "float and double": ("float", "double", "0.5, 0.1, 2", "0.5, 0.1, 2"),
    # Two numbers of the left side equal one of the right side.
    "bigint and double": (
        "bigint",
        "double",
        "1, 9007199254740993, 9007199254740992",
        "1, 2.5, 9007199254740992",
    ),
    "int and float": ("int", "float", "1, 16777217, 16777216, 5", "1, 16777216, 5"),
    "decimal and double": ("decimal(10,2)", "double", "1.50, 2.25", "1.5, 2.25, 7"),
    "NaN and zeros": ("double", "double", "'NaN', -0.0D, 0.0D, 1", "'NaN', 0.0D, -0.0D"),
    "date and timestamp": ("date", "timestamp", "'2020-01-01'", "'2020-01-01', '2020-01-01 01:00'"),
    "text": ("string", "string", "'a', 'b ', '', null", "'a', 'b', ''"),
    "bytes": ("binary", "binary", "'a', ''", "'a', 'b', ''"),
    "struct": (
        "struct<a: double>",
        "struct<a: double>",
        "struct(-0.0D), struct(1.0D), null",
        "struct(0.0D), struct(null)",
    ),
    "array": ("array<int>", "array<int>", "array(1, 2), array()", "array(1, 2), array(2)"),
}
#: Spark compares these in ways that have no hash of ours.
LEFT_TO_SPARK = {
    "collated text": ("string collate UTF8_LCASE", "string collate UTF8_LCASE", "'a', 'B'", "'A'"),
    "text and int": ("string", "int", "'1', '2'", "1, 2, 2"),
    "large decimals": ("decimal(38,20)", "decimal(38,2)", "1.5, 2", "1.50, 2"),
}


def sides(spark: Any, case: tuple[str, str, str, str]) -> list[Any]:
    frames = []
    for kind, values, name in ((case[0], case[2], "v"), (case[1], case[3], "w")):
        rows = ", ".join(f"(cast({value} as {kind}))" for value in _values(values))
        df = spark.sql(f"select k, 1 as {name} from values {rows} as t(k)")
        frames.append(df.union(df))
    return frames


def _values(text: str) -> list[str]:
    return text.split(", ") if "(" not in text else text.replace("), ", ")|").split("|")


@pytest.mark.parametrize("name", slow_except(["bigint and double", "NaN and zeros"], COMPARED))
def test_equal_keys_meet(spark: Any, name: str) -> None:
    left, right = sides(spark, COMPARED[name])
    plan = hand_made(left, right, ["k"], "full", lambda _: (2, 2))
    assert plan.reason is None
    assert_same(join(left, right, "k", how="full", plan=plan), plain(left, right, ["k"], "full"))


@pytest.mark.parametrize("name", slow_except(["collated text"], LEFT_TO_SPARK))
def test_other_keys_are_left_to_sparks_own_join(spark: Any, name: str) -> None:
    left, right = sides(spark, LEFT_TO_SPARK[name])
    plan = plan_join(left, right, "k", workers=3)
    assert plan.reason is not None
    assert "column 'k' is" in plan.reason
    assert_same(join(left, right, "k", workers=3), plain(left, right, ["k"], "inner"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [F.array, F.struct])
def test_keys_that_are_never_null_on_one_side_meet(spark: Any, kind: Any) -> None:
    """Their types have the same text and differ."""
    numbers = spark.sql("select k from values (1), (7), (null) as t(k)")
    left = numbers.select(
        kind(F.coalesce("k", F.lit(7)).alias("k")).alias("k"), F.lit(1).alias("v")
    )
    right = numbers.select(kind(F.col("k")).alias("k"), F.lit(2).alias("w"))
    assert left.schema["k"].dataType != right.schema["k"].dataType
    plan = hand_made(left, right, ["k"], "full", lambda _: (2, 2))
    assert_same(join(left, right, "k", how="full", plan=plan), plain(left, right, ["k"], "full"))


def test_chars_of_several_lengths_are_left_to_spark_which_pads_them(spark: Any) -> None:
    """Of tables, columns of CHAR are texts of their length, and Spark pads the shorter one."""

    def side(length: int, column: str) -> Any:
        about = {"__CHAR_VARCHAR_TYPE_STRING": f"char({length})"}
        text = F.rpad(F.lit("hot"), length, " ").alias("k", metadata=about)
        return spark.range(40).select(text, F.col("id").alias(column))

    left, right = side(5, "v"), side(8, "w")
    plan = plan_join(left, right, "k", workers=4, seed=1)
    assert "CHAR" in str(plan.reason)
    assert_same(join(left, right, "k", plan=plan), plain(left, right, ["k"], "inner"))
    same = side(5, "w")
    assert "CHAR" not in str(plan_join(left, same, "k", workers=4, seed=1).reason)
    assert_same(join(left, same, "k", workers=4, seed=1), plain(left, same, ["k"], "inner"))
