"""What a DataFrame reads: whether counting is cheap, and whether a retried task sees its order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import functions as F

from skewless.spark.routing.planned.inputs import Input, input_of, records_by_footer

pytestmark = pytest.mark.spark
CHEAP, EXPENSIVE = Input(True, True), Input(False, False)


def test_scans_are_cheap_and_what_needs_a_shuffle_or_python_is_not(
    spark: Any, tmp_path: Path
) -> None:
    df = spark.range(0, 100, 1, 2).select("id", (F.col("id") % 7).cast("string").alias("k"))
    texts = F.udf(lambda text: text)
    for kind in ("parquet", "csv", "json", "orc"):
        df.write.format(kind).save(str(tmp_path / kind))
        read = spark.read.format(kind).load(str(tmp_path / kind))
        assert input_of(read.where(F.col(read.columns[0]).isNotNull())) == CHEAP, kind
    read = spark.read.parquet(str(tmp_path / "parquet"))
    assert input_of(df) == CHEAP
    assert input_of(df.union(read)) == CHEAP
    assert input_of(read.where("k like '%\\n+- Aggregate%'")) in (CHEAP, EXPENSIVE)
    for expensive in (
        read.withColumn("k", texts("k")),
        read.groupBy("k").count(),
        read.repartition(3),
        read.join(df, "id"),
        read.sort("id"),
        read.mapInPandas(lambda parts: parts, "id bigint, k string"),
        spark.createDataFrame(df.rdd.map(lambda row: row), "id bigint, k string"),
    ):
        assert input_of(expensive) == EXPENSIVE, expensive


def test_a_footer_tells_the_records_of_compressed_files(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "100% of it, in"
    same = spark.range(0, 400_000, 1, 4).selectExpr("id", "'a' AS k")
    same.write.parquet(str(path))
    read = spark.read.parquet(str(path))
    assert records_by_footer(read.select("k")) == pytest.approx(400_000, rel=0.05)
    for unknown in (read.where("id > 9"), read.union(read), same, spark.range(3).limit(0)):
        assert records_by_footer(unknown) is None
    for file in path.glob("*.parquet"):
        file.write_bytes(b"no Parquet")
    assert records_by_footer(read) is None


def test_cached_data_is_cheap_and_repeats_if_what_it_was_made_of_does(spark: Any) -> None:
    df = spark.range(0, 100, 1, 2).select("id", (F.col("id") % 7).cast("string").alias("k"))
    from_rdd = spark.createDataFrame(df.rdd.map(lambda row: row), "id bigint, k string").cache()
    ordered, shuffled = df.where("id > 3").cache(), df.repartition(3, "k").cache()
    try:
        assert input_of(ordered.where("id < 90")) == Input(True, True)
        for unordered in (shuffled, from_rdd):
            assert input_of(unordered.where("id < 90")) == Input(True, False)
    finally:
        for cached in (ordered, shuffled, from_rdd):
            cached.unpersist()


def test_what_may_be_other_records_when_it_is_computed_again(spark: Any, tmp_path: Path) -> None:
    df = spark.range(0, 100, 1, 2).select("id", (F.col("id") % 7).alias("first"))
    shuffled = df.repartition(3)
    for changing in (
        shuffled.limit(9),
        shuffled.offset(9),
        shuffled.sample(0.5, 3),
        shuffled.dropDuplicates(["first"]),
        shuffled.groupBy("first").agg(F.any_value("id")),
        shuffled.groupBy("first").agg(F.percentile_approx("id", 0.5)),
        shuffled.groupBy("first").agg(F.collect_set("id")),
        shuffled.groupBy("first").agg(F.sum(F.sqrt("id")).cast("bigint")),
        shuffled.withColumn("n", F.monotonically_increasing_id()),
        shuffled.withColumn("n", F.rand()),
    ):
        assert input_of(changing) == Input(False, False, True), changing
    # A column may be called like a function; over files, draws and places repeat.
    assert not input_of(shuffled.groupBy("first").count()).changes
    assert not input_of(shuffled.groupBy("first").agg(F.sum("id"))).changes
    assert not input_of(df.withColumn("n", F.rand(1))).changes
    cached = shuffled.limit(9).cache()
    assert not input_of(cached.where("id > 1")).changes
    cached.unpersist()


def test_what_changes_is_seen_behind_many_columns_and_by_any_name(spark: Any) -> None:
    shuffled = spark.range(100).repartition(3)
    before = spark.conf.get("spark.sql.debug.maxToStringFields")
    many = shuffled.select("*", *[F.lit(n).alias(f"c{n}") for n in range(40)])
    assert not input_of(many).changes
    assert input_of(many.withColumn("draw", F.rand(1))).changes
    assert spark.conf.get("spark.sql.debug.maxToStringFields") == before
    draw = F.udf(lambda key: hash(key), "long")
    assert not input_of(shuffled.withColumn("n", draw("id"))).changes
    assert input_of(shuffled.withColumn("n", draw.asNondeterministic()("id"))).changes
