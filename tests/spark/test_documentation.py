"""What the guides show runs as it stands, but for folders and the number of workers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark.streams import read_stream, write_file

pytestmark = pytest.mark.spark
DOCS = Path(__file__).parent.parent.parent / "docs"
N_ORDERS, N_WORKERS = 3_000, 3
WORDS = ("cat", "dog", "cat", "cat", "emu")


def programs(pages: tuple[str, ...]) -> list[str]:
    """Return the Python blocks of some pages."""
    text = "\n".join((DOCS / page).read_text(encoding="utf-8") for page in pages)
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


class Reader:
    """Runs one block after the other, as somebody does who reads the pages from their beginning."""

    def __init__(self, pages: tuple[str, ...], folder: Path, **names: Any) -> None:
        self.waiting = programs(pages)
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "__main__", **names}

    def run(self, mention: str) -> dict[str, Any]:
        """Run the next block, which is the one with this in it; return all names."""
        program = self.waiting.pop(0)
        assert mention in program
        program = program.replace("workers=64", f"workers={N_WORKERS}")
        program = program.replace('"/data/', f'"{self.folder.as_posix()}/')
        exec(program, self.names)
        return self.names


@pytest.fixture
def orders(spark: Any) -> DataFrame:
    customer = F.when(F.col("id") % 2 == 0, 0).otherwise(F.col("id") % 100)
    df: DataFrame = spark.range(N_ORDERS).select(
        customer.alias("customer"),
        (F.col("id") % 8 / 4).alias("price"),  # multiples of 1/4: sums are exact in any order
        F.col("id").cast("string").alias("text"),
    )
    return df


@pytest.fixture
def words(spark: Any, tmp_path: Path) -> DataFrame:
    """Return a stream of words: of two times, the second so late that it closes all windows."""
    for number, seconds in enumerate((1_700_000_000, 1_700_009_000)):
        times = pa.array(np.full(len(WORDS), seconds * 1_000_000), pa.timestamp("us", "UTC"))
        write_file(tmp_path / "in", number, pa.table({"word": list(WORDS), "ts": times}))
    return read_stream(spark, tmp_path / "in", "word string, ts timestamp")


def by_customer(df: DataFrame) -> dict[int, Any]:
    return {row[0]: row[1] for row in df.collect()}


@pytest.mark.slow
def test_the_guide_to_spark_runs_from_its_beginning_to_its_end(
    spark: Any,
    orders: DataFrame,
    words: DataFrame,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    pages = ("spark.md", "spark-reference.md")
    reader = Reader(pages, tmp_path / "data", spark=spark, orders=orders, words=words)

    reader.run("hot_keys(")
    said = capsys.readouterr().out
    assert "cascade" in said
    assert "hash" in said
    found = reader.run("work=score")
    assert found["found"].costs.measured

    found = reader.run("aggs.mean")
    wanted = by_customer(orders.groupBy("customer").agg(F.avg("price")))
    assert by_customer(found["result"]) == wanted

    found = reader.run("class Profile")
    score = F.avg(F.col("price") * F.length("text"))
    assert by_customer(found["profiles"]) == by_customer(orders.groupBy("customer").agg(score))

    found = reader.run("mapInArrow")
    assert found["scored"].count() == N_ORDERS
    assert found["scored"].rdd.getNumPartitions() == N_WORKERS

    found = reader.run("plan_keys(")
    assert found["routed"].count() == N_ORDERS

    found = reader.run("writeStream")
    try:
        found["query"].processAllAvailable()
        reader.run("BalanceListener")
    finally:
        found["query"].stop()
        spark.streams.removeListener(found["listener"])
    counts = spark.read.parquet(str(tmp_path / "data" / "words")).collect()
    # Each record lies in two windows; those of the last time stay open.
    assert sorted((row["word"], row["n"]) for row in counts) == [
        *[("cat", 3)] * 2,
        *[("dog", 1)] * 2,
        *[("emu", 1)] * 2,
    ]
    assert "worker" in capsys.readouterr().out

    found = reader.run("class Product")
    growth = F.product(F.col("price") + 1)
    plain = by_customer(orders.groupBy("customer").agg(growth))
    assert by_customer(found["products"]) == pytest.approx(plain)  # the order of factors differs

    found = reader.run("class Spent")
    assert by_customer(found["spent"]) == by_customer(orders.groupBy("customer").agg(score))
    assert reader.waiting == []
