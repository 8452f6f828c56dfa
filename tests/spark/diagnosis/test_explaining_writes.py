"""`explain_write` tells whether a table keeps rows where `route` sent them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import functions as F

from skewless.spark import explain_write, route
from skewless.spark.diagnosis import explaining_writes

pytestmark = pytest.mark.spark
TABLE = "explained_table"


@pytest.fixture
def df(spark: Any) -> Iterator[Any]:
    spark.sql(
        f"CREATE TABLE {TABLE} (v BIGINT, tenant STRING) USING parquet PARTITIONED BY (tenant)"
    )
    yield spark.range(100).select(F.col("id").alias("v"), F.lit("a").alias("tenant"))
    spark.sql(f"DROP TABLE {TABLE}")


def test_a_table_of_files_keeps_the_rows_where_they_are(spark: Any, df: Any) -> None:
    plain = explain_write(df, TABLE)
    assert (plain.is_routed, plain.exchange) == (False, None)
    routed = explain_write(route(df, "tenant", workers=3).drop("worker"), TABLE)
    assert (routed.is_routed, routed.exchange) == (True, None)
    assert str(routed) == f"{TABLE}: the rows are written as route sent them"
    hashed = explain_write(df.repartition(3, "tenant"), TABLE)  # that shuffle is the user's own
    assert (hashed.is_routed, hashed.exchange) == (False, None)
    assert spark.table(TABLE).count() == 0
    assert not spark.sql("SHOW VIEWS LIKE 'skewless_*'").collect()


def test_a_table_that_asks_for_a_distribution_is_told(
    df: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is that of Iceberg 1.12 on Spark 4.1."""
    shown = explaining_writes._plan

    def asking(*given: Any) -> str:
        below = shown(*given).partition("+- WriteFiles")[2]
        exchange = "+- Exchange hashpartitioning(tenant#1, 4), REBALANCE_PARTITIONS_BY_COL"
        return f"AppendData IcebergWrite(table=lake.db.t, format=PARQUET)\n{exchange}\n{below}"

    monkeypatch.setattr(explaining_writes, "_plan", asking)
    routed = explain_write(route(df, "tenant", workers=3).drop("worker"), TABLE)
    assert routed.is_routed
    assert routed.exchange is not None
    assert "hashpartitioning(tenant" in routed.exchange
    assert "shuffles again what was routed: set the table's property" in str(routed)
    assert "shuffles the rows" in str(explain_write(df, TABLE))


@pytest.mark.parametrize("name", ["no_such_table", "a b; c", "", "none.such.table", 3, None])
def test_a_table_must_exist(df: Any, name: Any) -> None:
    with pytest.raises(ValueError, match="table must be the name of a table that exists, not"):
        explain_write(df, name)


@pytest.mark.parametrize(
    ("session", "table", "optimizes"),
    [
        (None, "true", True),
        (None, "false", False),
        ("false", "true", False),
        ("true", "false", True),
    ],
)
def test_deltas_session_has_precedence_over_its_table(
    spark: Any, session: str | None, table: str, optimizes: bool
) -> None:
    name = "spark.databricks.delta.optimizeWrite.enabled"
    spark.sql("DROP TABLE IF EXISTS optimized")
    spark.sql(
        "CREATE TABLE optimized (k int) USING parquet "
        f"TBLPROPERTIES ('delta.autoOptimize.optimizeWrite' = '{table}')"
    )
    if session is not None:
        spark.conf.set(name, session)
    try:
        assert explaining_writes._optimizes(spark, "optimized") is optimizes
    finally:
        spark.conf.unset(name)
        spark.sql("DROP TABLE optimized")


def test_columns_must_be_those_of_the_table(spark: Any, df: Any) -> None:
    with pytest.raises(ValueError, match=f"df: it cannot be written to {TABLE}"):
        explain_write(df.select("v"), TABLE)
    with pytest.raises(ValueError, match="df must be a batch DataFrame"):
        explain_write(spark.readStream.format("rate").load(), TABLE)
