"""TPC-H Q5 in sliding windows is what Spark SQL says for each window, at once and as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="the applications need pyspark")

from pyspark.sql import DataFrame

from skewless.apps.tpch_q5 import TpchQ5
from skewless.apps.tpch_tables import Tables, TpchStream, find_tables

#: Query 5 for every window, in its own words but for the dates.
Q5 = """
SELECT w.start, w.end, n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM (SELECT start, start + INTERVAL {window} AS end FROM (
        SELECT explode(sequence(TIMESTAMP '{first}', TIMESTAMP '{last}', INTERVAL {slide}))
        AS start)) w,
  {{customer}}, {{orders}}, {{lineitem}}, {{supplier}}, {{nation}}, {{region}}
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
  AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
  AND r_name = '{region}'
  AND o_orderdate >= w.start AND o_orderdate < w.end
  AND l_shipdate >= w.start AND l_shipdate < w.end
GROUP BY w.start, w.end, n_name"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return tables with few line items, in four micro-batches."""
    where = tmp_path_factory.mktemp("tpch") / "tables"
    TpchStream(n_items=6_000, n_batches=4, n_files=1).write(where)
    return where


def rows(found: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((row[0].start, row[0].end, *row[1:]) for row in found.collect())


def by_sql(spark: Any, tables: Tables, **asked: str) -> list[tuple[Any, ...]]:
    query = Q5.format(**asked)
    return sorted(tuple(row) for row in spark.sql(query, **tables).collect())


@pytest.mark.slow
@pytest.mark.spark
def test_a_batch_is_what_spark_sql_says_for_each_window(spark: Any, folder: Path) -> None:
    tables = find_tables(str(folder)).read(spark)
    expected = by_sql(
        spark,
        tables,
        region="EUROPE",
        window="'200' SECONDS",
        slide="'70' SECONDS",
        # Windows begin at multiples of the slide since 1970.
        first="2025-12-31 23:56:30",
        last="2026-01-01 00:15:00",
    )
    application = TpchQ5("EUROPE", "200 seconds", "70 seconds", workers=3)
    found = application.of(tables)
    assert rows(found) == expected
    assert len(expected) == 20  # of the 39 pairs that count, in 14 windows
    first = application.ranked(found, 2).collect()
    assert first[0].revenue >= first[1].revenue > 0


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("watermark", [None, "1 second"])
def test_a_stream_is_what_spark_sql_says_for_each_window(
    spark: Any, folder: Path, tmp_path: Path, watermark: str | None
) -> None:
    files = find_tables(str(folder))
    application = TpchQ5(watermark=watermark, workers=2)
    output = str(tmp_path / "out")
    stream = files.read_stream(spark, files_per_batch=1)
    query = application.stream(stream, output, str(tmp_path / "checkpoint"))
    assert sum(progress["numInputRows"] > 0 for progress in query.recentProgress) == 4
    tables = files.read(spark)
    expected = by_sql(
        spark,
        tables,
        region="ASIA",
        window="'5' MINUTES",
        slide="'1' MINUTE",
        first="2025-12-31 23:55:00",
        last="2026-01-01 00:15:00",
    )
    found = rows(spark.read.parquet(output).select("window", "nation", "revenue"))
    if watermark is None:
        assert found == expected
        return
    # The last windows are not over; those that are have all their rows, each once.
    assert found == [row for row in expected if row[1] <= max(end for _, end, *_ in found)]
    assert len({row[0] for row in found}) >= 8  # of 18


def test_foreign_keys_are_skewed_and_line_items_follow_their_orders() -> None:
    made = TpchStream(n_items=40_000, seconds=900, span=300)
    orders, items = made.orders(), made.line_items()
    keys = items["l_orderkey"].to_numpy()
    placed = orders["o_orderdate"].cast(pa.int64()).to_numpy()[keys - 1]
    after = items["l_shipdate"].cast(pa.int64()).to_numpy() - placed
    assert after.min() >= 0
    assert after.max() <= 300_000_000
    # Zipf with exponent 0.8 over n keys gives its first key 1 / (1 + 2^-0.8 + … + n^-0.8).
    for column, n_keys in (("o_custkey", made.n_customers), ("l_suppkey", made.n_suppliers)):
        drawn = (orders if column[0] == "o" else items)[column].to_pandas()
        first = 1 / sum(rank**-0.8 for rank in range(1, n_keys + 1))
        assert drawn.value_counts(normalize=True).iloc[0] == pytest.approx(first, rel=0.15)
        assert drawn.between(1, n_keys).all()
    assert TpchStream(n_items=400, seed=3).orders() == TpchStream(n_items=400, seed=3).orders()


@pytest.mark.spark
def test_files_of_generators_are_read_by_their_names(
    spark: Any, folder: Path, tmp_path: Path
) -> None:
    """A table is a `.tbl` file without a header, a CSV file with one, or a folder."""
    for table in ("customer", "supplier", "nation", "region", "orders", "lineitem"):
        (tmp_path / table).symlink_to(folder / table)
    nations = pq.read_table(folder / "nation")
    (tmp_path / "nation").unlink()
    lines = [f"{n}|{name}|{region}|a, b|\n" for n, name, region in tuples(nations)]
    (tmp_path / "nation.tbl").write_text("".join(lines))
    (tmp_path / "region").unlink()
    pyarrow.csv.write_csv(pq.read_table(folder / "region"), tmp_path / "region.csv")
    files = find_tables(str(tmp_path))
    files.require_columns([], "--input")
    tables = files.read(spark)
    assert sorted(map(tuple, tables["nation"].collect())) == sorted(tuples(nations))
    assert tables["region"].count() == 5


def tuples(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def test_tables_that_are_missing_or_double_are_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no table 'orders', .* orders\.parquet, \.tbl"):
        find_tables(str(tmp_path))
    for table in ("customer", "supplier", "nation", "region", "orders", "lineitem"):
        (tmp_path / table).symlink_to(folder / table)
    pq.write_table(pa.table({"r_name": ["ASIA"]}), tmp_path / "region.parquet")
    with pytest.raises(ValueError, match=r"has the table 'region' twice: 'region' and 'region\.p"):
        find_tables(str(tmp_path))
    (tmp_path / "region").unlink()
    with pytest.raises(ValueError, match=r"unknown column 'r_regionkey'.* has r_name"):
        find_tables(str(tmp_path)).require_columns([], "--input")
    pq.write_table(pq.read_table(folder / "region"), tmp_path / "region.parquet")
    (tmp_path / "orders").unlink()
    pq.write_table(pq.read_table(folder / "orders"), tmp_path / "orders.parquet")
    files = find_tables(str(tmp_path))
    with pytest.raises(ValueError, match=r"--stream reads a folder, and .*orders\.parquet' is a f"):
        files.require_folder()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"slide": "6 minutes"}, "--slide must be at most --window, 5 minutes, not '6 minutes'"),
        ({"slide": "1 millisecond"}, "--slide must be at least a 1,000th of --window"),
        ({"window": "soon"}, r"--window: .* not 'soon'"),
        ({"region": ""}, "--region must be the name of a region"),
        ({"strategy": "cascade"}, "cascade"),
    ],
)
def test_what_cannot_be_asked_is_refused(asked: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TpchQ5(**asked)
