"""`explain_write`: whether a table keeps the rows where `route` sent them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from skewless.diagnosis.writes import advice, is_ours, shuffles_of
from skewless.plumbing.arguments import shown
from skewless.spark.records import Records, first_line
from skewless.spark.routing.planned.inputs import physical_plan

_LONGEST = 300  # of an error


@dataclass(frozen=True)
class ExplainedWrite:
    """How a DataFrame is written into a table."""

    table: str
    write: str  # the operator that writes, as Spark's plan has it
    is_routed: bool  # whether skewless chose the partition of each row
    exchange: str | None = None  # the shuffle that the table adds, if it adds one
    remedy: str | None = None  # what to set so that it adds none

    def __str__(self) -> str:
        if self.exchange is None:
            kept = "as route sent them" if self.is_routed else "as they are; they were not routed"
            return f"{self.table}: the rows are written {kept}"
        undone = "again what was routed" if self.is_routed else "the rows"
        return f"{self.table}: the write shuffles {undone}: {self.remedy}\n  {self.exchange}"


def explain_write(df: DataFrame, table: str) -> ExplainedWrite:
    """Say whether writing `df` into a table shuffles its rows again; nothing is written.

    A table may ask for a distribution of its rows. Spark then shuffles them before the write, and
    what `route` did is undone.

    Parameters
    ----------
    df
        A batch DataFrame with the columns of the table, such as `route` returns.
    table
        The name of a table that exists.

    Examples
    --------
    >>> from skewless.spark import route
    >>> table = "CREATE TABLE by_day (n BIGINT, day BIGINT) USING parquet PARTITIONED BY (day)"
    >>> _ = spark.sql(table)
    >>> sales = spark.range(9).selectExpr("id AS n", "id % 3 AS day")
    >>> print(explain_write(route(sales, "day", workers=2).drop("worker"), "by_day"))
    by_day: the rows are written as route sent them
    >>> _ = spark.sql("DROP TABLE by_day")
    """
    records = Records.with_names(df, "df")
    if records.is_stream:
        raise ValueError(
            "df must be a batch DataFrame: explain one with the same columns and route"
        )
    spark = df.sparkSession
    try:
        exists = isinstance(table, str) and spark.catalog.tableExists(table)
    except PySparkException:  # not a name, or of a catalog that there is not
        exists = False
    if not exists:
        raise ValueError(f"table must be the name of a table that exists, not {shown(table)}")
    _, own = shuffles_of(physical_plan(df).splitlines())
    write, exchanges = shuffles_of(_plan(spark, df, table).splitlines())
    routed = is_ours(own)
    is_more = len(exchanges) > len(own) or (routed and bool(exchanges))
    if is_more and not is_ours(exchanges):
        return ExplainedWrite(table, write, routed, exchanges[0], advice(write))
    if "delta" in write.lower() and _optimizes(spark, table):
        return ExplainedWrite(table, write, routed, "Delta's optimized writes", advice("delta"))
    return ExplainedWrite(table, write, routed)


def _plan(spark: SparkSession, df: DataFrame, table: str) -> str:
    view = f"skewless_{uuid.uuid4().hex}"
    df.createTempView(view)
    try:
        rows: Any = spark.sql(f"EXPLAIN INSERT INTO {table} SELECT * FROM {view}").collect()
    except PySparkException as error:
        raise ValueError(f"df: it cannot be written to {table}: {first_line(error)}") from error
    finally:
        spark.catalog.dropTempView(view)
    text: str = rows[0][0]
    if "Error occurred" in text:
        why = " ".join(text.split())[:_LONGEST]
        raise ValueError(f"df: it cannot be written to {table}: {why}")
    return text


def _optimizes(spark: SparkSession, table: str) -> bool:
    """Return whether Delta shuffles before it writes; the session has precedence over the table."""
    # Delta writes inside of a command, whose plan is not shown: its settings tell.
    setting = spark.conf.get("spark.databricks.delta.optimizeWrite.enabled", None)
    if setting is None:
        properties = spark.sql(f"SHOW TBLPROPERTIES {table}").collect()
        setting = {row[0]: row[1] for row in properties}.get("delta.autoOptimize.optimizeWrite")
    return "true" in str(setting).lower()
