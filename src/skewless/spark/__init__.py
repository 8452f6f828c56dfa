"""Skew-aware partitioning on Spark: the one place that imports pyspark."""

from skewless.spark.aggregating import aggregate
from skewless.spark.routing import route
from skewless.spark.session import configure, session
from skewless.spark.windows import Window

__all__ = ["Window", "aggregate", "configure", "route", "session"]
