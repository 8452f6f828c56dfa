"""The programs of the guides run as they stand, in the session of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import functions as F

import skewless.spark
from document_blocks import run_page
from lanes import slow
from skewless import aggregations as aggs
from spark.streams import run, write_file

pytestmark = pytest.mark.spark
#: What guides set in the session.
SETTINGS = (
    "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes",
    "spark.sql.adaptive.skewJoin.skewedPartitionFactor",
)


@pytest.fixture
def spark(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return the session of the tests, which is also the one that a guide starts."""
    monkeypatch.setattr(skewless.spark, "session", lambda name, master: spark)
    yield spark
    for setting in SETTINGS:
        spark.conf.unset(setting)


@pytest.mark.parametrize(
    "page",
    [
        "tutorial",
        "keyed-state-reference",
        "reference/spark",
        *slow(["applications", "guides/straggler", "guides/write-an-aggregator"]),
    ],
)
def test_a_guide_runs_from_its_beginning_to_its_end(spark: Any, page: str, tmp_path: Path) -> None:
    run_page(f"docs/{page}.md", tmp_path)


def test_the_guide_to_joins_finds_each_pair_once(spark: Any, tmp_path: Path) -> None:
    second = 1_000_000
    for side, seconds in (("shown", (0, 10, 20)), ("clicked", (5, 4_000))):
        times = pa.array(np.array(seconds) * second, pa.timestamp("us", "UTC"))
        ads = pa.array(["big-sale"] * len(seconds))
        write_file(tmp_path / "ads" / side, 0, pa.table({"ad": ads, "ts": times}))
    pairs = run_page("docs/guides/hot-key-in-a-join.md", tmp_path)["pairs"]
    batches = run(pairs, "append", tmp_path / "checkpoint")
    found = sorted(
        (int(row["ts"].timestamp()), int(row["ts_right"].timestamp()))
        for rows in batches.values()
        for row in rows
    )
    assert found == [(0, 5), (10, 5), (20, 5)]  # 4,000 seconds are more than an hour


def test_the_guide_to_joins_of_tables_has_the_rows_of_sparks_join(
    spark: Any, tmp_path: Path
) -> None:
    threshold = "spark.sql.autoBroadcastJoinThreshold"
    spark.conf.set(threshold, "-1")  # the tables of the page stand for large ones
    try:
        names = run_page("docs/guides/skewed-joins.md", tmp_path)
        expected = names["orders"].join(names["visits"], "customer", "left")
        assert names["pairs"].count() == expected.count()
    finally:
        spark.conf.unset(threshold)


def test_the_guide_to_writes_writes_every_record(spark: Any, tmp_path: Path) -> None:
    tenant = F.when(F.col("id") % 2 == 0, 0).otherwise(F.col("id") % 5)
    text = F.col("id").cast("string").alias("text")
    df = spark.range(0, 400, 1, 2).select(tenant.alias("tenant"), text)
    try:
        run_page("docs/skewed-writes.md", tmp_path, df=df, spark=spark)
    finally:
        spark.sql("DROP TABLE IF EXISTS by_tenant")
    for folder in ("by-tenant", "by-tenant-routed"):
        assert spark.read.parquet(str(tmp_path / folder)).count() == 400


def test_the_page_of_chosen_keys_counts_every_click(spark: Any, tmp_path: Path) -> None:
    clicks = spark.range(300).select((F.col("id") % 7).alias("user"))
    names = {"route": skewless.spark.route, "aggregate": skewless.spark.aggregate, "aggs": aggs}
    run_page("docs/chosen-keys.md", tmp_path, clicks=clicks, **names)
