"""The ready operators refuse bad arguments in one line, before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import functions as F

from skewless import aggregations as aggs
from skewless.spark import deduplicate, join, sessions, top_n
from spark.streams import read_stream

pytestmark = pytest.mark.spark

DDL = "k string, v bigint, ts timestamp, m map<string, int>, rank int"
WATERMARK = ("ts", "1 minute")


class NoMerge(aggs.Aggregator[int]):
    inputs = ("v",)
    state = "bigint"
    result = "bigint"
    merges = False

    def zero(self) -> int:
        return 0

    def update(self, state: int, records: Any) -> int:
        return state

    def merge(self, a: int, b: int) -> int:
        return a

    def finish(self, state: int) -> int:
        return state


class NoVectorMerge(aggs.VectorAggregator):
    inputs = ("v",)
    state = "n bigint"
    result = "bigint"
    merges = False

    def update(self, records: Any, keys: Any, n_keys: int) -> Any:
        return {"n": np.bincount(keys, minlength=n_keys)}

    def finish(self, states: Any) -> Any:
        return states["n"]


def _deduplicate(stream: Any, **given: Any) -> Any:
    given = {"key": "k", "within": "1 hour", "watermark": WATERMARK, **given}
    return deduplicate(given.pop("df", stream), given.pop("key"), **given)


def _sessions(stream: Any, **given: Any) -> Any:
    given = {"key": "k", "gap": "1 hour", "aggs": None, "watermark": WATERMARK, **given}
    return sessions(stream, given.pop("key"), given.pop("gap"), given.pop("aggs"), **given)


def _top_n(stream: Any, **given: Any) -> Any:
    given = {"key": "k", "by": "v", "n": 3, **given}
    df = given.pop("df", stream.drop("rank"))
    return top_n(df, given.pop("key"), given.pop("by"), given.pop("n"), **given)


def _join(stream: Any, **given: Any) -> Any:
    given = {"on": "k", "within": "1 hour", "watermark": WATERMARK, "right": stream, **given}
    return join(given.pop("left", stream), given.pop("right"), given.pop("on"), **given)


CASES: list[tuple[Any, dict[str, Any], str]] = [
    (_deduplicate, {"watermark": None}, r"watermark: deduplicate works by event time: give"),
    (_deduplicate, {"watermark": ("v", "1 day")}, r"'v' must be a timestamp, not bigint"),
    (_deduplicate, {"within": "0 seconds"}, r"within must be above 0, not '0 seconds'"),
    (_deduplicate, {"within": 5}, r"within must be numbers with units like"),
    (_deduplicate, {"key": "kk"}, r"key: unknown column 'kk'; did you mean 'k'"),
    (_deduplicate, {"key": "m"}, r"key: column 'm' is of type map<string,int>"),
    (_deduplicate, {"df": 7}, r"df must be a Spark DataFrame, not 7"),
    (_deduplicate, {"strategy": "cascade"}, r"strategy: 'cascade' cannot place keyed state"),
    (_deduplicate, {"ledger": None}, r"ledger: process keeps the states of a stream there"),
    (_sessions, {"watermark": None}, r"watermark: sessions works by event time: give"),
    (_sessions, {"gap": "-1 hour"}, r"gap must be above 0, not '-1 hour'"),
    (_sessions, {"gap": "1 microsecond"}, r"gap must be whole milliseconds"),
    (_sessions, {"key": "a start"}, r"key: 'start' is the name of another column"),
    (_sessions, {"aggs": {"records": aggs.count()}}, r"aggs: 'records' is the name of another"),
    (_sessions, {"aggs": [aggs.count()]}, r"aggs must be a mapping of names to aggregations"),
    (_sessions, {"aggs": {"s": aggs.sum("k")}}, r"aggs: 's': "),
    (_sessions, {"aggs": {"d": aggs.distinct("v", exact=False)}}, r"aggs: 'd': approximate"),
    (_sessions, {"aggs": {"d": NoMerge()}}, r"aggs: 'd' does not merge"),
    (_sessions, {"aggs": {"d": NoVectorMerge()}}, r"aggs: 'd' does not merge"),
    (_top_n, {"n": 0}, r"n must be 1 … 1,000,000, not 0"),
    (_top_n, {"n": "x"}, r"n must be a whole number, not 'x'"),
    (_top_n, {"by": "k"}, r"by: 'k' is a part of the key"),
    (_top_n, {"by": "m"}, r"by: column 'm' is of type map<string,int>, which Spark cannot order"),
    (_top_n, {"by": "w"}, r"by: unknown column 'w'"),
    (_top_n, {"df": "stream"}, r"df: 'rank' is the name of another column of the result"),
    (_top_n, {"batch_column": "V"}, r"batch_column: 'V' is the name of another column"),
    (_top_n, {"batch_column": ""}, r"batch_column must be the name of a new column, not ''"),
    (_deduplicate, {"batch_column": "TS"}, r"batch_column: 'TS' is the name of another column"),
    (_sessions, {"batch_column": "end"}, r"batch_column: 'end' is the name of another column"),
    (_sessions, {"late_column": "end"}, r"late_column: 'end' is the name of another column"),
    (_join, {"batch_column": "v_right"}, r"batch_column: 'v_right' is the name of another"),
    (_join, {"batch_column": 3}, r"batch_column must be the name of a new column, not 3"),
    (_join, {"within": None}, r"within: a join of streams pairs records by event time"),
    (_join, {"how": "anti"}, r"how must be 'inner', 'left', 'right' or 'full', not 'anti'"),
    (_join, {"how": None}, r"how must be 'inner', 'left', 'right' or 'full', not None"),
    (_join, {"watermark": None}, r"watermark: join works by event time: give"),
    (_join, {"within": "0 seconds"}, r"within must be above 0"),
    (_join, {"on": []}, r"on must be the name of a column, or several, not \[\]"),
    (_join, {"on": "x"}, r"on: left: unknown column 'x'"),
    (_join, {"on": ["k", "k"]}, r"key names a column twice"),
    (_join, {"on": "ts"}, r"on: the event time cannot be a part of the key"),
    (_join, {"right_time": "v"}, r"right_time: column 'v' must be of the same type as 'ts'"),
    (_join, {"right_time": "at"}, r"right_time: unknown column 'at'"),
    (_join, {"suffix": ""}, r"suffix: 'v' is the name of another column of the result"),
    (_join, {"suffix": 3}, r"suffix must be a text, not 3"),
    (_join, {"left": "table"}, r"left must be a stream as right is, not a batch DataFrame"),
    (_join, {"right": "table"}, r"right must be a stream as left is, not a batch DataFrame"),
    (_join, {"right": "other keys"}, r"on: column 'k' is string on the left side and bigint on"),
    (_join, {"right": [1]}, r"right must be a Spark DataFrame, not \[1\]"),
]


def test_bad_arguments_are_refused_in_one_line(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    stream = read_stream(spark, tmp_path / "in", DDL)
    frames = {
        "stream": stream,
        "table": spark.createDataFrame([], DDL),
        "a start": F.col("k").alias("start"),
        "other keys": stream.withColumn("k", F.lit(1).cast("bigint")),
    }
    for verb, settings, message in CASES:
        given = {
            name: frames[value] if isinstance(value, str) and value in frames else value
            for name, value in settings.items()
        }
        with pytest.raises(ValueError, match=message) as caught:
            verb(stream, **{"ledger": str(tmp_path / "ledger"), **given})
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "ledger").exists()
    for verb in (_deduplicate, _sessions, _join):
        ledger = str(tmp_path / verb.__name__)
        good = verb(stream, workers=2, ledger=ledger, batch_column="batch")
        assert good.isStreaming
        assert good.schema.fields[-1].simpleString() == "batch:bigint"
