"""What cannot work is refused when it is asked for, by a message that says what can."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import DataFrame
from pyspark.sql import Window as Frame
from pyspark.sql import functions as F

from skewless import aggregations as aggs
from skewless.spark.aggregation.aggregate import aggregate
from skewless.spark.diagnosis.hot_keys import hot_keys
from skewless.spark.ledger.ledger import Ledger, LedgerCorrupt, LedgerMismatch, LedgerTooNew
from skewless.spark.records import Records
from skewless.spark.routing.arguments import routing_arguments
from skewless.spark.routing.route import make_router, route
from skewless.strategies.cascade import Cascade
from spark.streams import read_stream

pytestmark = pytest.mark.spark
DDL = (
    "k string, v bigint, w double, ts timestamp, m map<string,int>, `from` interval year to month, "
    "worker int"
)
COUNT = {"n": aggs.count()}
VARIANCE = {"x": aggs.variance("v")}


@pytest.fixture(scope="module")
def df(spark: Any) -> DataFrame:
    empty: DataFrame = spark.createDataFrame([], DDL)
    return empty.withColumn("loose", F.expr("collate(k, 'UTF8_LCASE')"))


@pytest.fixture
def stream(spark: Any, tmp_path: Path) -> DataFrame:
    """Return a stream that nobody can read: its one file is no Parquet file."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.parquet").write_text("nothing of the kind")
    return read_stream(spark, tmp_path / "in", "k string, v bigint, ts timestamp")


# Columns need a session, so a lambda makes them later.
ROUTES: list[tuple[dict[str, Any], str]] = [
    ({"key": "kk"}, "key: unknown column 'kk'; did you mean 'k'? The DataFrame has k, v"),
    (
        {"key": lambda: F.col("kk")},
        "key: Column<'kk'> cannot be computed from the DataFrame, which has k",
    ),
    ({"key": []}, "key must name at least one column, not []"),
    ({"key": None}, "key must be a column, its name, or several of them, not None"),
    ({"key": ["k", 3]}, "key must be the name of a column, not 3"),
    ({"key": ["k", "k"]}, "key names a column twice: k, k"),
    ({"key": "m"}, "key: column 'm' is of type map<string,int>, which Spark cannot hash"),
    ({"key": lambda: F.struct("k", "m")}, "which Spark cannot hash"),
    ({"strategy": "cascad"}, "unknown strategy 'cascad'; did you mean 'cascade'?"),
    ({"strategy": Cascade}, "strategy must be a name of the registry, 'module:Class', or a "),
    ({"strategy": None}, "or a strategy such as Cascade(), not None"),
    ({"workers": 0}, "workers must be 1 … 16,777,215, not 0"),
    ({"workers": -1}, "workers must be 1 … 16,777,215, not -1"),
    ({"workers": 2**24}, "workers must be 1 … 16,777,215, not 16777216"),
    ({"workers": 2.5}, "workers must be a whole number, not 2.5"),
    ({"workers": float("inf")}, "workers must be a whole number, not inf"),
    ({"workers": "many"}, "workers must be a whole number, not 'many'"),
    ({"seed": -1}, "seed must be at least 0, not -1"),
    ({"seed": "x"}, "seed must be a whole number, not 'x'"),
    ({"weight": "ww"}, "weight: unknown column 'ww'; did you mean 'w'?"),
    ({"weight": lambda: F.col("ww")}, "weight: Column<'ww'> cannot be computed"),
    ({"weight": 5}, "weight must be the name of a column, not 5"),
    ({"weight": "k"}, "weight: column 'k' must be a number, not string"),
    ({"key": lambda: F.sum("v")}, "key: Column<'sum(v)'> must have one value for each record"),
    ({"key": lambda: F.explode(F.array("v"))}, "must have one value for each record; an aggregate"),
    (
        {"key": lambda: F.row_number().over(Frame.orderBy("v"))},
        "must have one value for each record; an aggregate, a generator or a window function",
    ),
    ({"key": lambda: F.col("*")}, "key: Column<'*'> is "),
    ({"key": {"k"}}, "key must be a column, its name, or several of them, not {'k'}"),
    ({"strategy": lambda: F.col("k")}, "or a strategy such as Cascade(), not Column<'k'>"),
    ({"workers": True}, "workers must be a whole number, not True"),
    ({"workers": lambda: 10**5000}, "workers must be 1 … 16,777,215, not a value of type int"),
    (
        {"seed": 1 << 64},
        "seed must be at most 18,446,744,073,709,551,615, not 18446744073709551616",
    ),
    ({"weight": lambda: F.sum("v")}, "weight: Column<'sum(v)'> must have one value for each"),
    ({"ledger": True}, "ledger must be a folder, as a path or as a URI, not True"),
    ({"ledger": "/dev/null"}, "ledger must be a folder, not '/dev/null': '/dev/null' is a file"),
    (
        {"ledger": "/dev/null/x"},
        "ledger must be a folder, not '/dev/null/x': '/dev/null' is a file",
    ),
    ({"ledger": ""}, "ledger must be a folder, as a path or as a URI, not ''"),
    (
        {"weight": "w", "strategy": "pkg"},
        "weight: strategy 'pkg' does not weigh records; 'cascade'",
    ),
]
AGGREGATES: list[tuple[dict[str, Any], str]] = [
    ({"key": "from"}, "key: Arrow has no type for this (from interval year to month)"),
    ({"key": "loose"}, "key: column 'loose' is of type string collate UTF8_LCASE, and text is"),
    ({"aggs": []}, "aggs must be a mapping of names to aggregations, like {'n': count()}, not []"),
    ({"aggs": {}}, "aggs must be a mapping of names to aggregations, like {'n': count()}, not {}"),
    (
        {"aggs": {"k": aggs.count()}},
        "aggs: 'k' is the name of a key column or of the window already",
    ),
    ({"aggs": {5: aggs.count()}}, "aggs: a result's name must be a text, not 5"),
    (
        {"aggs": lambda: {"n": F.count("v")}},
        "aggs: 'n' must be an aggregation of skewless.aggregations, an",
    ),
    ({"aggs": {"n": aggs.sum("vv")}}, "aggs: 'n': unknown column 'vv'; did you mean 'v'?"),
    ({"aggs": {"n": aggs.sum("k")}}, "column 'k' must be integers, floats or decimals"),
    ({"aggs": {"n": aggs.variance("ts")}}, "column 'ts' must be integers, floats or decimals"),
    ({"aggs": {"n": aggs.min("m")}}, "column 'm' must have an order"),
    (
        {"aggs": {"n": aggs.distinct("loose")}},
        "aggs: 'n': inputs: column 'loose' is of type string",
    ),
    (
        {"aggs": VARIANCE | {"a": aggs.distinct("v", exact=False)}, "strategy": "local"},
        "compute them in two calls",
    ),
    (
        {"window": "1 minute"},
        "window must be a Window or (time, size[, slide[, offset]]), not '1 m",
    ),
    ({"window": ("tz", "1 minute")}, "window: unknown column 'tz'; did you mean 'ts'?"),
    ({"window": ("v", "1 minute")}, "window: column 'v' must be a timestamp, not bigint"),
    ({"window": ("ts", "soon")}, "window: size must be numbers with units like '10 minutes'"),
    ({"window": ("ts", "-1 minute")}, "window: size must be above 0, not '-1 minute'"),
    ({"window": ("ts", "1 minute", "2 minutes")}, "at most the size (1 minute), not '2 minutes'"),
    ({"window": ("ts", "1 minute"), "watermark": "x"}, "watermark must be numbers with units like"),
    (
        {"window": ("ts", "1 minute"), "watermark": "-1 day"},
        "watermark must be at least 0, not '-1",
    ),
    ({"watermark": "1 minute"}, "watermark '1 minute' needs window=: without windows no result"),
    (
        {"window": ("ts", "1 minute"), "aggs": {"window": aggs.count()}},
        "aggs: 'window' is the name of a key column or of the window already",
    ),
    (
        {"window": ("ts", "1 minute"), "key": lambda: F.col("k").alias("window")},
        "key: 'window' is the name of the windows' column: rename the key",
    ),
    ({"mode": "complete"}, "mode must be 'update' or 'append', not 'complete'"),
    ({"mode": "append"}, "mode 'append' needs a window and a watermark: no result is ever final"),
]


def shown(value: Any) -> str:
    text = re.sub(r" at 0x\w+", "", str(value))  # an address would differ from process to process
    return re.sub(r"\W+", "-", text)[:60]


def made(changed: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value() if isinstance(value, FunctionType) else value
        for name, value in changed.items()
    }


@pytest.mark.parametrize(("changed", "message"), ROUTES, ids=shown)
def test_both_refuse(df: DataFrame, changed: dict[str, Any], message: str) -> None:
    options = {"key": "k", "workers": 2, **made(changed)}
    for call in (
        lambda: route(df.drop("worker"), **options),
        lambda: aggregate(df, aggs=COUNT, **options),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            call()


@pytest.mark.parametrize(("changed", "message"), AGGREGATES, ids=shown)
def test_aggregate_refuses(df: DataFrame, changed: dict[str, Any], message: str) -> None:
    options = {"key": "k", "aggs": COUNT, "workers": 2, **made(changed)}
    with pytest.raises(ValueError, match=re.escape(message)):
        aggregate(df, **options)


@pytest.mark.parametrize("column", ["worker", "Worker", "K", "", 5])
def test_route_replaces_no_column(df: DataFrame, column: Any) -> None:
    with pytest.raises(ValueError, match=r"^column(:| must be a name)") as refused:
        route(df, "k", workers=2, column=column)
    assert repr(column) in str(refused.value)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"top": "x"}, "top must be a whole number, not 'x'"),
        ({"top": True}, "top must be a whole number, not True"),
        ({"top": 10_001}, "top must be 1 … 10,000, not 10001"),
        ({"sample": None}, "sample must be a whole number, not None"),
        ({"sample": float("nan")}, "sample must be a whole number, not nan"),
        ({"sample": 0}, "sample must be at least 1, not 0"),
        ({"seed": 10**30}, "seed must be at most 18,446,744,073,709,551,615, not 1000"),
        ({"strategies": 3}, "strategies must be names or strategies, or 'all', not 3"),
        ({"strategies": lambda: F.col("k")}, "strategies must be names or strategies, or 'all'"),
        ({"strategies": [None]}, "strategies must be a name of the registry, 'module:Class'"),
        ({"strategies": ["hsh"]}, "strategies: unknown strategy 'hsh'; did you mean 'hash'?"),
        ({"df": 5}, "df must be a Spark DataFrame, not 5"),
    ],
    ids=shown,
)
def test_hot_keys_refuses(df: DataFrame, changed: dict[str, Any], message: str) -> None:
    options = {"df": df, "key": "k", "workers": 2, **made(changed)}
    with pytest.raises(ValueError, match=re.escape(message)):
        hot_keys(**options)


def test_columns_that_occur_twice_are_refused_only_where_they_are_used(df: DataFrame) -> None:
    twice = df.select("k", "v", F.col("w").alias("V"), F.col("w").alias("W"), "w", "ts")
    ambiguous = "is ambiguous: the DataFrame has k, v, V, W, w, ts; rename all but one"
    for call in (
        lambda: route(twice, "v", workers=2),
        lambda: route(twice, "k", workers=2, weight="w"),
        lambda: aggregate(twice, "k", {"n": aggs.sum("v")}, workers=2),
        lambda: hot_keys(twice, "v", workers=2),
    ):
        with pytest.raises(ValueError, match=ambiguous):
            call()
    assert aggregate(twice, "k", COUNT, workers=2).columns == ["k", "n"]
    assert route(twice, "k", workers=2).columns == [*twice.columns, "worker"]


def test_streams_with_a_watermark_are_refused(stream: DataFrame, tmp_path: Path) -> None:
    late = stream.withWatermark("ts", "1 minute")
    folder = str(tmp_path / "ledger")
    span = ("ts", "1 minute")
    other = stream.withColumn("u", F.col("ts")).withWatermark("u", "1 day")
    for options in (
        {"key": "ts", "strategy": "cascade"},
        {"key": "k", "strategy": "local", "window": span, "df": other},
    ):
        with pytest.raises(ValueError, match=r"has a watermark already.* give window= and waterm"):
            aggregate(**{"df": late, "aggs": COUNT, "workers": 2, "ledger": folder, **options})
    with pytest.raises(ValueError, match=r"^watermark: the DataFrame has a watermark already"):
        aggregate(late, "k", COUNT, window=span, watermark="1 minute", ledger=folder)
    zoneless = stream.withColumn("ts", F.col("ts").cast("timestamp_ntz"))
    with pytest.raises(ValueError, match=r"^watermark: .* column 'ts' is timestamp_ntz: cast it"):
        aggregate(
            zoneless,
            "k",
            COUNT,
            window=("ts", "1 minute"),
            watermark="1 minute",
            workers=2,
            ledger=folder,
        )
    # Where no key is a time, the watermark is somebody else's and does no harm; and plain Spark
    # knows what to do with it.
    aggregate(late, "k", COUNT, workers=2, ledger=folder, strategy="cascade")
    aggregate(late, "ts", COUNT, ledger=folder)


# Ledgers, before anything is read


@pytest.fixture
def folder(spark: Any, stream: DataFrame, tmp_path: Path) -> Iterator[Path]:
    """Return the folder of a ledger that a query has claimed; nothing may be started or written."""
    given = routing_arguments(stream, workers=2, seed=1, ledger=str(tmp_path / "ledger"))
    router = make_router(stream, Records.of(stream).by("k").key, "pkg", given)
    assert router.query.ledger is not None
    router.query.ledger.claim(router.query.identity)
    before = (tmp_path / "ledger" / "identity.json").stat().st_mtime_ns
    yield tmp_path / "ledger"
    assert spark.streams.active == []
    assert [path.name for path in (tmp_path / "ledger").iterdir()] == ["identity.json"]
    assert before <= time.time_ns()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"strategy": "fish"}, "was written for strategy=pkg, not fish"),
        ({"seed": 2}, "was written for seed=1, not 2"),
        ({"key": "v"}, "was written for key=k, not v"),
        ({"key": ["k", "v"]}, "was written for key=k, not k, v"),
    ],
)
def test_a_ledger_of_another_query_is_refused_before_data_is_read(
    stream: DataFrame, folder: Path, changed: dict[str, Any], message: str
) -> None:
    options = {"key": "k", "strategy": "pkg", "workers": 2, "seed": 1, "ledger": str(folder)}
    for call in (
        lambda: route(stream, **{**options, **changed}),
        lambda: aggregate(stream, aggs=COUNT, **{**options, **changed}),
    ):
        with pytest.raises(LedgerMismatch, match=re.escape(message)) as refused:
            call()
        assert str(folder) in str(refused.value)
    route(stream, **options)


def test_a_damaged_or_newer_ledger_is_refused_before_data_is_read(
    stream: DataFrame, folder: Path
) -> None:
    options: dict[str, Any] = {"strategy": "pkg", "workers": 2, "seed": 1, "ledger": str(folder)}
    identity = folder / "identity.json"
    whole = identity.read_text()
    identity.write_text(whole[:-20])
    with pytest.raises(LedgerCorrupt, match=r"identity\.json is not readable"):
        route(stream, "k", **options)
    identity.write_text(json.dumps(json.loads(whole) | {"version": 99}))
    with pytest.raises(LedgerTooNew, match=r"identity\.json.*99"):
        aggregate(stream, "k", COUNT, **options)


def test_a_ledger_without_a_name_is_refused(stream: DataFrame) -> None:
    with pytest.raises(ValueError, match="ledger must be a folder, as a path or as a URI, not ' '"):
        route(stream, "k", workers=2, ledger=" ")
    assert Ledger("x").folder == str(Path("x").absolute())
