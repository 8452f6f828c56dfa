"""Skew-aware partitioning on Spark: the one place that imports pyspark."""

from skewless.spark.aggregating import aggregate
from skewless.spark.balance_listener import BalanceListener
from skewless.spark.explaining import explain_balance
from skewless.spark.finding_hot_keys import hot_keys, observe_hot_keys, observed_hot_keys
from skewless.spark.routing import route
from skewless.spark.session import configure, session
from skewless.spark.windows import Window

__all__ = [
    "BalanceListener",
    "Window",
    "aggregate",
    "configure",
    "explain_balance",
    "hot_keys",
    "observe_hot_keys",
    "observed_hot_keys",
    "route",
    "session",
]
