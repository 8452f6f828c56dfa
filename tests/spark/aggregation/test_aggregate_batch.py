"""`aggregate` on batch DataFrames gives what `groupBy` gives, record for record."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T

from skewless import aggregations as aggs
from skewless.spark.aggregation.aggregate import aggregate
from spark.streams import (
    FULL,
    STRATEGIES,
    WINDOWS,
    assert_same_rows,
    assert_same_types,
    native,
    own,
    plain,
    records,
    write_file,
)

pytestmark = pytest.mark.spark
DATA = os.environ.get("SKEWLESS_DATA")
#: Strategies differ in where records go and in nothing else: one sees all windows, the others one
#: kind each, unless everything is asked for.
NATIVE = [
    (strategy, window)
    for place, strategy in enumerate(STRATEGIES)
    for number, window in enumerate(WINDOWS)
    if FULL or strategy == "cascade" or number == place % len(WINDOWS)
]
OWN = [case for case in NATIVE if FULL or case[0] in ("cascade", "hash", "dalton")]
#: Forms that route nothing see all windows: each has code of its own.
NATIVE += [(form, window) for form in ("plain", "local") for window in WINDOWS]
OWN += [("local", window) for window in WINDOWS]
QUICK = [("cascade", "sliding"), ("local", "tumbling"), ("plain", "none")]


def ways(cases: list[tuple[str, str]]) -> list[Any]:
    """Return the cases; those that repeat much of what others show are slow ones."""
    return [
        pytest.param(*case, marks=[] if FULL or case in QUICK else pytest.mark.slow)
        for case in cases
    ]


@pytest.fixture(scope="module")
def skewed(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    folder = tmp_path_factory.mktemp("skewed")
    for number in range(3):
        write_file(folder, number, records(2000, seed=number))
    df: DataFrame = spark.read.parquet(str(folder))
    return df


@pytest.fixture(scope="module")
def expected(skewed: DataFrame) -> dict[str, tuple[DataFrame, list[Row]]]:
    """Every aggregation by plain queries, one per kind of window."""
    queries = {name: plain(skewed, ["k"], window) for name, window in WINDOWS.items()}
    return {name: (query, query.collect()) for name, query in queries.items()}


@pytest.fixture
def settings(spark: Any) -> Iterator[Any]:
    """Return a function that sets Spark's settings for one test."""
    before: dict[str, str | None] = {}

    def change(name: str, value: str) -> None:
        before.setdefault(name, spark.conf.get(name, None))
        spark.conf.set(name, value)

    yield change
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def key_names(window: Any, *key: str) -> list[str]:
    return [*(["window"] if window is not None else []), *key]


def compare(
    df: DataFrame, key: list[str], ready: dict[str, Any], window: Any = None, **options: Any
) -> list[Row]:
    """Compare with a plain query on the same records, and return our rows.

    Routed unless something else is asked for: "auto" would be the plain query itself.
    """
    options.setdefault("strategy", "cascade")
    ours = aggregate(df, key, ready, window=window, **options)
    others = plain(df, [f"`{name}`" for name in key], window, names=list(ready))
    assert_same_types(ours, others)
    rows = ours.collect()
    assert_same_rows(rows, others.collect(), key_names(window, *key))
    return rows


@pytest.mark.parametrize(("strategy", "window"), ways(NATIVE))
def test_what_spark_merges_equals_plain_spark(
    skewed: DataFrame, expected: Any, strategy: str, window: str
) -> None:
    ours = aggregate(skewed, "k", native(), window=WINDOWS[window], strategy=strategy, workers=5)
    others, rows = expected[window]
    assert_same_types(ours, others)
    assert_same_rows(ours.collect(), rows, key_names(WINDOWS[window], "k"))


@pytest.mark.parametrize(("strategy", "window"), ways(OWN))
def test_what_we_merge_equals_plain_spark(
    skewed: DataFrame, expected: Any, strategy: str, window: str
) -> None:
    ours = aggregate(skewed, "k", own(), window=WINDOWS[window], strategy=strategy, workers=5)
    others, rows = expected[window]
    assert_same_types(ours, others)
    assert_same_rows(ours.collect(), rows, key_names(WINDOWS[window], "k"))


@pytest.mark.parametrize("strategy", ["plain", "local", "cascade"])
def test_no_records_give_no_rows(skewed: DataFrame, strategy: str) -> None:
    for chosen in ({"n": aggs.count()}, {"n": aggs.count(), "var": aggs.variance("v")}):
        ours = aggregate(skewed.limit(0), "k", chosen, workers=3, strategy=strategy)
        assert ours.collect() == []


@pytest.mark.parametrize("workers", [1, 20])
def test_the_number_of_workers_changes_nothing(skewed: DataFrame, workers: int) -> None:
    few = skewed.where("k in ('hot', '東京')").limit(200).coalesce(1)
    rows = compare(few, ["k"], {"n": aggs.count(), "var": aggs.variance("v")}, workers=workers)
    assert sum(row["n"] for row in rows) == 200


def test_one_key_alone_is_one_row(skewed: DataFrame) -> None:
    hot = skewed.where("k = 'hot'")
    assert len(compare(hot, ["k"], native(), workers=4)) == 1


@pytest.mark.slow
def test_keys_of_every_type_group_as_in_plain_spark(spark: Any) -> None:
    nan, zero = float("nan"), -0.0
    moment = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)
    keys = [
        # -0.0 and 0.0, at any depth, are one key.
        (
            "ä",
            1,
            (zero, "x"),
            [zero, None],
            Decimal("1.5"),
            datetime.date(1, 1, 1),
            zero,
            b"\0\xff",
        ),
        ("ä", 1, (0.0, "x"), [0.0, None], Decimal("1.5"), datetime.date(1, 1, 1), 0.0, b"\0\xff"),
        ("ä", 2, (nan, "x"), [nan], Decimal("-1e-18"), datetime.date(9999, 12, 31), nan, b""),
        ("ä", 2, (nan, "x"), [nan], Decimal("-1e-18"), datetime.date(9999, 12, 31), nan, b""),
        (None, None, None, None, None, None, None, None),
        (None, None, (None, None), [], None, None, None, None),
        ("", 0, (1.0, ""), [None], Decimal("0"), datetime.date(1970, 1, 1), 1.0, b"\0"),
    ]
    ddl = (
        "`text` string, `n` int, `struct` struct<a: double, b: string>, `array` array<double>, "
        "`decimal` decimal(38,18), `date` date, `double` double, `binary` binary, v bigint"
    )
    df = spark.createDataFrame([(*key, i) for i, key in enumerate(keys * 3)], ddl)
    df = df.withColumns(
        {
            "moment": F.when(F.col("n").isNotNull(), F.lit(moment).cast("timestamp_ntz")),
            "span": F.expr("if(n is null, null, make_dt_interval(-n, 1, 2, 3.000004))"),
            "void": F.lit(None),
            "sure": F.struct(F.lit(1).alias("never null")),
            "small": F.col("n").cast("tinyint"),
            "yes": F.col("n") > 0,
            "float": F.col("double").cast("float"),
        }
    )
    names = [name for name in df.columns if name != "v"]
    for ready in ({"n_v": aggs.count("v"), "list": aggs.collect("v")}, {"var": aggs.variance("v")}):
        assert len(compare(df.coalesce(2), names, ready, workers=3)) == 5


@pytest.mark.slow
def test_huge_keys_arrive_whole(spark: Any) -> None:
    df = spark.range(0, 12, 1, 2).select(
        F.concat(F.repeat(F.lit("ключ"), 125_000), F.col("id") % 4).alias("k"),
        F.col("id").alias("v"),
    )
    rows = compare(df, ["k"], {"sum_v": aggs.sum("v"), "var": aggs.variance("v")}, workers=3)
    assert {len(row["k"]) for row in rows} == {500_001}


def test_names_may_hold_dots_blanks_and_backticks(skewed: DataFrame) -> None:
    df = skewed.select(
        F.col("k").alias("the.key"), F.col("v").alias("a b"), F.col("w").alias("c`d.e"), "ts"
    )
    for extra in ({}, {"var.of it": aggs.variance("a b")}):
        ready: dict[str, Any] = {"sum.of": aggs.sum("a b"), "`": aggs.collect_set("c`d.e"), **extra}
        ours = aggregate(
            df, "the.key", ready, window=("ts", "60 seconds"), workers=3, strategy="cascade"
        )
        assert ours.columns == ["window", "the.key", *ready]
        others = df.groupBy(F.window("ts", "60 seconds"), F.col("`the.key`")).agg(
            F.sum("`a b`").alias("sum.of"),
            F.sort_array(F.collect_set("`c``d.e`")).alias("`"),
            F.round(F.variance("`a b`"), 6).alias("var.of it"),
        )
        rows = [row.asDict() for row in ours.collect()]
        for row in rows:
            row["`"] = sorted(row["`"])
            if extra and row["var.of it"] is not None:
                # The same rounding on both sides; the values differ in the last digits only.
                row["var.of it"] = round(row["var.of it"], 6)
        others = others.select(
            *[f"`{name}`" if "`" not in name else "````" for name in ours.columns]
        )
        wanted = [row.asDict() for row in others.collect()]
        assert sorted(map(repr, rows)) == sorted(map(repr, wanted))


def test_results_may_be_called_alike_but_for_case(skewed: DataFrame) -> None:
    chosen = {"n": aggs.count(), "N": aggs.sum("v")}
    ours = aggregate(skewed, "k", chosen, workers=3, strategy="cascade")
    others = skewed.groupBy("k").agg(F.count(F.lit(1)), F.sum("v"))
    assert sorted(map(tuple, ours.collect()), key=repr) == sorted(
        map(tuple, others.collect()), key=repr
    )


@pytest.mark.slow
def test_a_key_may_be_computed_and_be_called_like_an_input(skewed: DataFrame) -> None:
    key = F.upper("s").alias("s")
    others = skewed.groupBy(key, F.col("w") % 2).agg(F.min("s").alias("min_s"))
    for strategy in ("plain", "cascade"):
        ours = aggregate(
            skewed, [key, F.col("w") % 2], {"min_s": aggs.min("s")}, workers=3, strategy=strategy
        )
        assert_same_types(ours, others)
        assert_same_rows(ours.collect(), others.collect(), ours.columns[:2])


@pytest.mark.slow
def test_weights_change_the_routing_and_not_the_results(skewed: DataFrame) -> None:
    # Zeros, nulls, negative numbers, NaN and infinity: none of them may stop the query.
    odd = "if(w = 1, double('NaN'), if(w = 2, double('Infinity'), x))"
    for weight in ("w", F.expr(odd)):
        compare(
            skewed, ["k"], {"n": aggs.count(), "sum_v": aggs.sum("v")}, workers=4, weight=weight
        )


def test_aggregators_of_spark_run_as_they_are(skewed: DataFrame) -> None:
    """Key by key; buffer and value are tuples of one."""

    class Total:
        bufferSchema = T.StructType().add("total", "long")  # noqa: N815
        outputType = T.LongType()  # noqa: N815

        def zero(self) -> tuple[int]:
            return (0,)

        def reduce(self, buffer: tuple[int], value: tuple[int | None]) -> tuple[int]:
            return (buffer[0] + (value[0] or 0),)

        def merge(self, one: tuple[int], other: tuple[int]) -> tuple[int]:
            return (one[0] + other[0],)

        def finish(self, buffer: tuple[int]) -> int:
            return buffer[0]

    own = aggs.reducing(Total(), inputs="v")
    found = aggregate(skewed, "k", {"total": own}, workers=4, strategy="cascade")
    totals = skewed.groupBy("k").agg(F.coalesce(F.sum("v"), F.lit(0)).alias("total"))
    assert_same_rows(found.collect(), totals.collect(), ["k"])


def test_transform_takes_it(skewed: DataFrame) -> None:
    ours = skewed.transform(lambda df: aggregate(df, "k", {"n": aggs.count()}, workers=3))
    assert_same_rows(ours.collect(), plain(skewed, ["k"], None, names=["n"]).collect(), ["k"])


@pytest.mark.slow
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_windows_begin_where_sparks_begin(skewed: DataFrame, settings: Any, zone: str) -> None:
    settings("spark.sql.session.timeZone", zone)
    df = skewed.withColumn("ts", F.col("ts") - F.expr("interval 60 years"))  # before 1970
    if zone == "UTC":
        df = df.withColumn("ts", F.col("ts").cast("timestamp_ntz"))
    window = ("ts", "1 minute 10 seconds", "20 seconds", "-7 seconds")
    ready = {"n": aggs.count(), "max_ts": aggs.max("ts")}
    compare(df, ["k"], ready, window, workers=3)
    compare(df, ["k"], {**ready, "var": aggs.variance("v")}, window, workers=3)


@pytest.mark.parametrize(
    ("digits", "scale"), [(14, 4), pytest.param(18, 10, marks=pytest.mark.slow), (38, 18)]
)
def test_means_of_decimals_are_rounded_once(spark: Any, digits: int, scale: int) -> None:
    kind = f"decimal({digits},{scale})"
    cubes = F.expr(f"cast(cast(pow(id, 3) as decimal(38,18)) / 7 as {kind})")
    df = spark.range(0, 60, 1, 2).select((F.col("id") % 3).alias("k"), cubes.alias("d"))
    ready = {"mean_d": aggs.mean("d"), "sum_d": aggs.sum("d")}
    compare(df, ["k"], ready, workers=3)
    chosen = {**ready, "var": aggs.variance("d")}
    with_own = aggregate(df, "k", chosen, workers=3, strategy="cascade").drop("var")
    others = plain(df, ["k"], None, names=list(ready))
    assert_same_types(with_own, others)
    assert_same_rows(with_own.collect(), others.collect(), ["k"])


def test_what_cannot_be_merged_is_never_split(skewed: DataFrame) -> None:
    class Median(aggs.Aggregator[Any]):
        inputs = ("v",)
        state = "double"
        result = "double"
        merges = False

        def zero(self) -> None:
            return None

        def update(self, state: None, records: Any) -> float | None:
            values = sorted(records["v"].drop_null().to_pylist())
            assert state is None
            middle = (
                (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2 if values else 0
            )
            return middle if values else None

        def finish(self, state: float | None) -> float | None:
            return state

    for window in (None, WINDOWS["tumbling"]):
        ours = aggregate(skewed, "k", {"median": Median()}, window=window, workers=3)
        routed = aggregate(
            skewed, "k", {"median": Median()}, window=window, workers=3, strategy="hash"
        )
        by = ["k"] if window is None else [F.window(*window), "k"]
        others = skewed.groupBy(*by).agg(F.median("v").alias("median"))
        assert_same_types(ours, others)
        rows = others.collect()
        assert_same_rows(ours.collect(), rows, key_names(window, "k"))
        assert_same_rows(routed.collect(), rows, key_names(window, "k"))
    for options, why in (
        ({"strategy": "pkg"}, "split by 'pkg': use strategy='hash'"),
        ({"window": WINDOWS["sliding"]}, "windows that overlap: leave out the slide"),
    ):
        with pytest.raises(ValueError, match=f"aggs: 'median' does not merge .* {why}"):
            aggregate(skewed, "k", {"median": Median()}, workers=3, **options)


@pytest.mark.skipif(not DATA, reason="SKEWLESS_DATA names no folder with real streams")
@pytest.mark.parametrize(
    "path", sorted(Path(DATA or "none").glob("*.parquet")), ids=lambda p: p.stem
)
def test_real_streams_equal_plain_spark(spark: Any, tmp_path: Path, path: Path) -> None:
    table = pq.ParquetFile(path).read_row_group(0).slice(0, 20_000)
    write_file(tmp_path, 0, table)
    df = spark.read.parquet(str(tmp_path)).select(
        F.col("key").alias("k"),
        F.floor(F.col("ts").cast("double")).cast("bigint").alias("v"),
        F.timestamp_seconds(F.floor(F.col("ts").cast("double"))).alias("ts"),
        F.col("value").cast("string").alias("s"),
    )
    length = df.agg(F.max("v") - F.min("v")).collect()[0][0]
    window = ("ts", f"{max(2, length // 4)} seconds", f"{max(1, length // 10)} seconds")
    names = ["n", "n_v", "sum_v", "distinct", "approx", "min_s", "set", "max_ts"]
    for span in (None, window):
        others = plain(df, ["k"], span, names=names)
        rows = others.collect()
        for strategy in (*STRATEGIES, "plain", "local"):
            ready = {name: native()[name] for name in names}
            ours = aggregate(df, "k", ready, window=span, strategy=strategy, workers=8)
            assert_same_types(ours, others)
            assert_same_rows(ours.collect(), rows, key_names(span, "k"))
