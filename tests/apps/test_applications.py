"""The applications of the papers find what plain Spark finds, in batches and in streams."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the applications need pyspark")

from pyspark.sql import DataFrame

from skewless.apps.computation import BATCH, Application
from skewless.apps.records.generated import write_generated
from skewless.apps.records.inputs import Input, find_input
from skewless.apps.self_join import SelfJoin
from skewless.apps.windowed import DdosFlows, Hashtags, RoadCondition, Vwap

#: Each application, the records that it reads, and what plain Spark says.
CASES: dict[str, tuple[Application, str, str]] = {
    "vwap": (
        Vwap(workers=3, strategy="pstream", seed=1),
        "trades",
        """SELECT symbol, sum(price * size) / sum(size) AS vwap, sum(size) AS volume,
           count(*) AS trades FROM {records} GROUP BY symbol""",
    ),
    "hashtags": (
        Hashtags("text", top=5, workers=3, time="ts", window="2 minutes", slide="1 minute"),
        "posts",
        """SELECT window, hashtag, count FROM (
             SELECT window, hashtag, count(*) AS count, row_number() OVER (
               PARTITION BY window ORDER BY count(*) DESC, hashtag) AS place
             FROM (SELECT ts, explode(regexp_extract_all(lower(text), '#([a-z0-9]+)')) AS hashtag
                   FROM {records})
             GROUP BY window(ts, '2 minutes', '1 minute'), hashtag)
           WHERE place <= 5""",
    ),
    "road condition": (
        RoadCondition(least=2, workers=3),
        "positions",
        """SELECT window, cell, count(DISTINCT vehicle) AS vehicles, avg(speed) AS speed
           FROM {records} GROUP BY window(ts, '5 minutes'), cell HAVING vehicles >= 2""",
    ),
    "road condition without vehicles": (
        RoadCondition(vehicle=None, least=5, workers=3),
        "positions",
        """SELECT window, cell, count(*) AS positions, avg(speed) AS speed
           FROM {records} GROUP BY window(ts, '5 minutes'), cell HAVING positions >= 5""",
    ),
    "DDoS flows": (
        DdosFlows(least=3, workers=3, seed=1),
        "flows",
        """SELECT source, count(*) AS flows, count(DISTINCT destination) AS destinations
           FROM {records} GROUP BY source HAVING flows >= 3""",
    ),
    "self-join": (
        SelfJoin(trader="trader", within="20 seconds", workers=3),
        "trades",
        """SELECT a.symbol, a.trader, a.side, a.ts AS time, b.side AS side_right,
                  b.ts AS time_right
           FROM {records} a JOIN {records} b ON a.symbol = b.symbol AND a.trader = b.trader
           WHERE a.side = 'buy' AND b.side = 'sell'
             AND abs(unix_micros(a.ts) - unix_micros(b.ts)) <= 20000000""",
    ),
}


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the generated stream of a kind."""
    folder = tmp_path_factory.mktemp("streams")

    def stream(kind: str) -> Input:
        if not (folder / kind).exists():
            write_generated(kind, folder / kind, 3_000)
        return find_input(str(folder / kind))

    return stream


def rows(found: DataFrame) -> list[tuple[Any, ...]]:
    """Return all rows in one order; sums of floats may differ in their last digits."""
    return sorted(
        tuple(round(value, 9) if isinstance(value, float) else value for value in row)
        for row in found.collect()
    )


@pytest.mark.spark
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ("DDoS flows", "vwap") else pytest.mark.slow)
        for name in CASES
    ],
)
def test_a_batch_finds_what_plain_spark_finds(spark: Any, streams: Any, name: str) -> None:
    application, kind, query = CASES[name]
    records = streams(kind).read(spark)
    expected = rows(spark.sql(query, records=records))
    found = application.of(records)
    assert rows(found) == expected
    assert len(expected) > 20
    first = application.ranked(found, 3).collect()
    assert len(first) == 3
    assert first[0][application.ranks[0]] >= first[1][application.ranks[0]]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    "name", [pytest.param("road condition", marks=pytest.mark.slow), "self-join"]
)
def test_a_stream_finds_what_a_batch_finds(
    spark: Any, streams: Any, name: str, tmp_path: Path
) -> None:
    application, kind, query = CASES[name]
    source = streams(kind)
    expected = rows(spark.sql(query, records=source.read(spark)))
    output = str(tmp_path / "out")
    done: list[int] = []
    stream = source.read_stream(spark, files_per_batch=4)
    application.stream(stream, output, str(tmp_path / "checkpoint"), done.append)
    assert done == [1, 2]
    found = spark.read.parquet(output)
    assert rows(found.drop(BATCH)) == expected


@pytest.mark.slow
@pytest.mark.spark
def test_windows_of_a_stream_are_written_once_with_their_top_hashtags(
    spark: Any, streams: Any, tmp_path: Path
) -> None:
    _, kind, query = CASES["hashtags"]
    application = Hashtags(
        "text",
        top=5,
        workers=2,
        time="ts",
        window="2 minutes",
        slide="1 minute",
        watermark="0 seconds",
    )
    source = streams(kind)
    output = str(tmp_path / "out")
    stream = source.read_stream(spark, files_per_batch=4)
    application.stream(stream, output, str(tmp_path / "checkpoint"))
    records = source.read(spark)
    last = records.agg({"ts": "max"}).collect()[0][0]
    expected = [row for row in rows(spark.sql(query, records=records)) if row[0].end <= last]
    assert len(expected) == 5 * 9  # of 11 windows, two end after the last record
    assert rows(spark.read.parquet(output).drop(BATCH)) == expected


@pytest.mark.spark
def test_texts_of_other_formats_become_numbers_and_times(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "trades.csv"
    path.write_text(
        "what,paid,n,at\nx,2.0,1,1000\nx,5.0,2,1970-01-01 00:17:10\ny,,3,1000\n,1.0,1,1000\n"
    )
    trades = find_input(str(path)).read(spark)
    application = Vwap("what", "paid", "n", time="at", window="1 minute", workers=2)
    found = {
        (
            row.symbol,
            (row.window.start - datetime(1970, 1, 1)).total_seconds(),
            row.vwap,
            row.trades,
        )
        for row in application.of(trades).collect()
    }
    assert found == {
        ("x", 960, 2.0, 1),
        ("x", 1020, 5.0, 1),
        ("y", 960, None, 1),
        (None, 960, 1.0, 1),
    }
