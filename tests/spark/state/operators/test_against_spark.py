"""The ready operators on Spark equal Spark's own, record for record, while keys move."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from skewless import aggregations as aggs
from skewless.spark import deduplicate, join, sessions, top_n
from spark.state.chains import random_moves
from spark.state.operators.comparing import in_text_order, settled
from spark.state.operators.stepping import BEGIN, DDL, SECOND, drifting, table_of
from spark.streams import configured

pytestmark = pytest.mark.spark

DELAY = "15 seconds"
WATERMARK = ("ts", DELAY)
#: A last record that is so late that all other ones are over, and another one to see that.
END = [[("end", 0, 10_000 * SECOND)], [("end", 1, 10_001 * SECOND)]]


def moving(folder: Path) -> dict[str, Any]:
    return {"strategy": random_moves(), "workers": 2, "ledger": str(folder / "ledger")}


def ours_and_sparks(
    spark: Any, folder: Path, batches: Any, ours: Any, sparks: Any
) -> tuple[list[Any], list[Any]]:
    """Return the rows of both, sorted."""
    with configured(spark, {"spark.sql.shuffle.partitions": "2"}):
        found = [
            in_text_order(settled(spark, folder / name, DDL, batches, query))
            for name, query in (("ours", ours), ("spark", sparks))
        ]
    return found[0], found[1]


@pytest.mark.slow
def test_sessions_of_a_stream(spark: Any, tmp_path: Path) -> None:
    batches = [[table_of(records)] for records in [*drifting(3, 3, 40, 40), *END]]

    def ours(streams: list[DataFrame]) -> DataFrame:
        chosen = {"total": aggs.sum("v"), "values": aggs.collect_set("v")}
        found = sessions(
            streams[0], "k", "7 seconds", chosen, watermark=WATERMARK, **moving(tmp_path)
        )
        return found.withColumn("values", F.array_sort("values"))

    def sparks(streams: list[DataFrame]) -> DataFrame:
        late = streams[0].withWatermark(*WATERMARK)
        window = F.session_window("ts", "7 seconds")
        grouped = late.groupBy("k", window).agg(
            F.count(F.lit(1)).alias("records"),
            F.sum("v").alias("total"),
            F.array_sort(F.collect_set("v")).alias("values"),
        )
        return grouped.select(
            "k", "session_window.start", "session_window.end", "records", "total", "values"
        )

    found, wanted = ours_and_sparks(spark, tmp_path, batches, ours, sparks)
    assert found == wanted
    assert len(found) > 15


@pytest.mark.slow
def test_duplicates_of_a_stream(spark: Any, tmp_path: Path) -> None:
    # Repetitions of a key are never more than the delay apart, as Spark's operator has it.
    batches = []
    for batch in range(4):
        keys = [None if i == 3 and batch < 2 else f"{batch // 2}-{i}" for i in range(6)]
        begin = (batch // 2 * 40 + batch % 2 * 5) * SECOND
        late = [("late", 1, begin - 60 * SECOND)] if batch == 3 else []
        records = [(key, 10 * batch + i, begin + i * SECOND) for i, key in enumerate(keys)]
        batches.append([table_of([*records, *records[:2], *late])])

    def ours(streams: list[DataFrame]) -> DataFrame:
        return deduplicate(streams[0], "k", within=DELAY, watermark=WATERMARK, **moving(tmp_path))

    def sparks(streams: list[DataFrame]) -> DataFrame:
        return streams[0].withWatermark(*WATERMARK).dropDuplicatesWithinWatermark(["k"])

    found, wanted = ours_and_sparks(spark, tmp_path, batches, ours, sparks)
    assert found == wanted
    assert len(found) == 12


@pytest.mark.slow
def test_a_left_join_of_streams(spark: Any, tmp_path: Path) -> None:
    # The right side is behind, and sets the watermark.
    left, right = drifting(4, 8, 40, 40), [[], *drifting(3, 9, 40, 40)]
    pairs = zip([*left, *END], [*right, *END], strict=True)
    # Spark's outer joins of streams let null keys meet, which those of batches do not, and hold
    # records without a time for ever. Other tests compare those.
    batches = [
        [table_of([r for r in side if None not in (r[0], r[2])]) for side in both] for both in pairs
    ]

    def ours(streams: list[DataFrame]) -> DataFrame:
        settings = {"how": "left", "watermark": WATERMARK, **moving(tmp_path)}
        return join(*streams, "k", within="6 seconds", **settings)

    def sparks(streams: list[DataFrame]) -> DataFrame:
        return of_spark(*(df.withWatermark(*WATERMARK) for df in streams), "left")

    found, wanted = ours_and_sparks(spark, tmp_path, batches, ours, sparks)
    # Spark holds a record for a while longer; what is over in the last micro-batch may differ.
    found, wanted = ([row for row in rows if row[0] != "end"] for rows in (found, wanted))
    assert found == wanted
    assert len(found) > 40


def of_spark(left: DataFrame, right: DataFrame, how: str) -> DataFrame:
    """Compute the results by Spark's own join."""
    renamed = right.toDF("k_right", "v_right", "ts_right")
    span = F.expr("INTERVAL 6 SECONDS")
    near = (F.col("ts") >= F.col("ts_right") - span) & (F.col("ts") <= F.col("ts_right") + span)
    found = left.join(renamed, (left["k"] == renamed["k_right"]) & near, how)
    key = F.coalesce("k", "k_right").alias("k")
    return found.select(key, "v", "ts", "v_right", "ts_right")


def batch_of(spark: Any, seed: int, n: int = 8) -> DataFrame:
    records = [record for batch in drifting(n, seed) for record in batch]
    times = [None if t is None else (BEGIN + t) for _, _, t in records]
    rows = [(key, value, time) for (key, value, _), time in zip(records, times, strict=True)]
    df = spark.createDataFrame(rows, "k string, v bigint, micros bigint").coalesce(1)
    return df.select("k", "v", F.timestamp_micros("micros").alias("ts"))


@pytest.mark.slow
def test_batches(spark: Any) -> None:
    one, other = batch_of(spark, 1).cache(), batch_of(spark, 2, 4).cache()
    for how in ("inner", "left", "right", "full"):
        settings: dict[str, Any] = {"how": how, "watermark": WATERMARK, "workers": 3}
        found = join(one, other, "k", within="6 seconds", **settings)
        wanted = of_spark(one, other, how).collect()
        assert in_text_order(found.collect()) == in_text_order(wanted)
        assert len(wanted) > 100
    # A join with itself reads its records once.
    settings = {"how": "left", "watermark": WATERMARK}
    found = join(one, one, "k", within="6 seconds", **settings)
    assert in_text_order(found.collect()) == in_text_order(of_spark(one, one, "left").collect())
    local = one.withColumn("ts", F.col("ts").cast("timestamp_ntz"))
    found = sessions(local, "k", "7 seconds", watermark=WATERMARK, workers=3)
    windows = local.groupBy("k", F.session_window("ts", "7 seconds")).count()
    wanted = windows.select("k", "session_window.start", "session_window.end", "count").collect()
    assert in_text_order(found.collect()) == in_text_order(wanted)
    found = top_n(
        one, F.upper("k").alias("key"), "v", 3, workers=3, order_by="ts", batch_column="b"
    )
    order = Window.partitionBy(F.upper("k")).orderBy(F.desc("v"), F.asc("ts"))
    ranked = one.withColumn("rank", F.row_number().over(order)).where("rank <= 3")
    wanted = ranked.select(F.upper("k"), "rank", "k", "v", "ts", F.lit(0)).collect()
    assert found.columns == ["key", "rank", "k", "v", "ts", "b"]
    assert in_text_order(found.collect()) == in_text_order(wanted)
    found = deduplicate(one, "k", within="10000 days", watermark=WATERMARK, workers=3)
    order = Window.partitionBy("k").orderBy("ts")
    firsts = one.where("ts IS NOT NULL").withColumn("n", F.row_number().over(order))
    wanted = firsts.where("n = 1").drop("n").union(one.where("ts IS NULL")).collect()
    assert [(row["k"], row["ts"]) for row in in_rows(found.collect())] == [
        (row["k"], row["ts"]) for row in in_rows(wanted)
    ]


def in_rows(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: repr((row["k"], row["ts"])))
