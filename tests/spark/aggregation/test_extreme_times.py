"""Times at the edges of what Spark holds: windows are those of plain Spark, or refused as there."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lanes import slow
from skewless import aggregations as aggs
from skewless.spark import Window, aggregate, hot_keys

pytestmark = pytest.mark.spark
LIMIT = (1 << 63) - 1
YEAR_1, YEAR_9999 = -62_135_596_800_000_000, 253_402_300_799_999_999
YEAR_290000 = 9_089_370_000_000_000_000
TIMES = [YEAR_1, YEAR_1 - 1, -60_000_001, -1, 0, 1, YEAR_9999, YEAR_9999 + 1, YEAR_290000]
WINDOWS = [
    ("10 minutes", "4 minutes", "1 minute"),
    ("3 microseconds", "2 microseconds", "-1 microsecond"),
]


def records(spark: Any, micros: list[int]) -> DataFrame:
    rows = [(f"k{place % 3}", time) for place, time in enumerate(micros * 2)]
    df = spark.createDataFrame(rows, "k string, micros bigint")
    return df.select("k", F.lit(2).alias("v"), F.timestamp_micros("micros").alias("ts"))


def outcome(result: DataFrame) -> Any:
    """Return the rows with times as numbers, which Python can hold; or that there are none."""
    try:
        return sorted(
            map(
                tuple,
                result.select(
                    F.unix_micros("window.start"), F.unix_micros("window.end"), "k", "n"
                ).collect(),
            )
        )
    except PySparkException:
        return "refused"


def both(df: DataFrame, size: str, slide: str | None, offset: str | None, own: bool) -> list[Any]:
    spread = aggs.variance("v", population=True) if own else aggs.count()
    plain = F.var_pop("v") if own else F.count("v")
    window = F.window("ts", size, slide or size, offset or "0 seconds")
    ours = aggregate(df, "k", {"n": spread}, window=Window("ts", size, slide, offset), workers=2)
    return [outcome(ours), outcome(df.groupBy(window, "k").agg(plain.alias("n")))]


@pytest.mark.parametrize("own", [*slow([False]), True], ids=["merged by Spark", "merged here"])
@pytest.mark.parametrize(("size", "slide", "offset"), WINDOWS)
def test_windows_of_extreme_times_are_those_of_plain_spark(
    spark: Any, size: str, slide: str | None, offset: str | None, own: bool
) -> None:
    ours, plain = both(records(spark, TIMES), size, slide, offset, own)
    assert ours == plain != "refused"


@pytest.mark.slow
@pytest.mark.parametrize("own", [False, True], ids=["merged by Spark", "merged here"])
@pytest.mark.parametrize("time", [LIMIT, -LIMIT - 1])
def test_at_the_limits_there_is_what_plain_spark_has(spark: Any, time: int, own: bool) -> None:
    ours, plain = both(records(spark, [time]), "10 minutes", None, "1 minute", own)
    assert ours == plain


def test_hot_keys_may_be_times_that_python_cannot_hold(spark: Any) -> None:
    df = records(spark, TIMES)
    found = hot_keys(df, "ts", workers=2, strategies="pkg")
    assert found.records == 2 * len(TIMES)
    assert any("290000" in key.key for key in found.keys)
    days = df.select(F.col("ts").cast("date").alias("day"))
    found = hot_keys(days, "day", workers=2, strategies="pkg")
    assert any("290000" in key.key for key in found.keys)
