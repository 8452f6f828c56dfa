"""Skew-aware partitioning on Spark. Only this folder and `apps/` import pyspark."""

from typing import TYPE_CHECKING

from skewless.plumbing.lazy_names import lazy_names

if TYPE_CHECKING:
    from skewless.spark.aggregation.aggregate import aggregate
    from skewless.spark.aggregation.windows import Window
    from skewless.spark.balance.explaining import explain_balance
    from skewless.spark.balance.listener import BalanceListener
    from skewless.spark.configuring import configure, session
    from skewless.spark.diagnosis.explaining_writes import explain_write
    from skewless.spark.diagnosis.hot_keys import hot_keys, observe_hot_keys, observed_hot_keys
    from skewless.spark.joins.join import join
    from skewless.spark.joins.plan_join import plan_join
    from skewless.spark.routing.planned.plan_keys import KeyPlan, plan_keys
    from skewless.spark.routing.route import route
    from skewless.spark.state.checking import check_processor
    from skewless.spark.state.operators.deduplicate import deduplicate
    from skewless.spark.state.operators.sessions import sessions
    from skewless.spark.state.operators.top_n import top_n
    from skewless.spark.state.planning.scaling import scale_to
    from skewless.spark.state.process import process
    from skewless.spark.state.processor import (
        Append,
        KeyedRecords,
        KeyProcessor,
        Processor,
        Update,
    )
    from skewless.spark.state.reading import read_state
    from skewless.spark.state.savepoint import savepoint
else:  # pyspark, pandas and numba take seconds to import
    __getattr__ = lazy_names(
        __name__,
        {
            "aggregation.aggregate": "aggregate",
            "aggregation.windows": "Window",
            "balance.explaining": "explain_balance",
            "balance.listener": "BalanceListener",
            "configuring": "configure session",
            "diagnosis.explaining_writes": "explain_write",
            "diagnosis.hot_keys": "hot_keys observe_hot_keys observed_hot_keys",
            "joins.join": "join",
            "joins.plan_join": "plan_join",
            "routing.planned.plan_keys": "KeyPlan plan_keys",
            "routing.route": "route",
            "state.checking": "check_processor",
            "state.operators.deduplicate": "deduplicate",
            "state.operators.sessions": "sessions",
            "state.operators.top_n": "top_n",
            "state.planning.scaling": "scale_to",
            "state.process": "process",
            "state.processor": "Append KeyedRecords KeyProcessor Processor Update",
            "state.reading": "read_state",
            "state.savepoint": "savepoint",
        },
    )

__all__ = [
    "Append",
    "BalanceListener",
    "KeyPlan",
    "KeyProcessor",
    "KeyedRecords",
    "Processor",
    "Update",
    "Window",
    "aggregate",
    "check_processor",
    "configure",
    "deduplicate",
    "explain_balance",
    "explain_write",
    "hot_keys",
    "join",
    "observe_hot_keys",
    "observed_hot_keys",
    "plan_join",
    "plan_keys",
    "process",
    "read_state",
    "route",
    "savepoint",
    "scale_to",
    "session",
    "sessions",
    "top_n",
]
__dir__ = __all__.copy  # what an interactive session completes
