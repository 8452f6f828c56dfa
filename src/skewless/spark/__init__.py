"""Skew-aware partitioning on Spark. Only this folder and `apps/` import pyspark."""

from typing import TYPE_CHECKING

from skewless.plumbing.lazy_names import lazy_names

if TYPE_CHECKING:  # `as` says that a name is public
    from skewless.spark.aggregation.aggregate import aggregate as aggregate
    from skewless.spark.aggregation.windows import Window as Window
    from skewless.spark.balance.explaining import explain_balance as explain_balance
    from skewless.spark.balance.listener import BalanceListener as BalanceListener
    from skewless.spark.configuring import configure as configure
    from skewless.spark.configuring import session as session
    from skewless.spark.diagnosis.explaining_writes import explain_write as explain_write
    from skewless.spark.diagnosis.hot_keys import hot_keys as hot_keys
    from skewless.spark.diagnosis.hot_keys import observe_hot_keys as observe_hot_keys
    from skewless.spark.diagnosis.hot_keys import observed_hot_keys as observed_hot_keys
    from skewless.spark.joins.join import join as join
    from skewless.spark.joins.plan_join import JoinPlan as JoinPlan
    from skewless.spark.joins.plan_join import plan_join as plan_join
    from skewless.spark.routing.planned.plan_keys import KeyPlan as KeyPlan
    from skewless.spark.routing.planned.plan_keys import plan_keys as plan_keys
    from skewless.spark.routing.route import route as route
    from skewless.spark.state.checking import check_processor as check_processor
    from skewless.spark.state.operators.deduplicate import deduplicate as deduplicate
    from skewless.spark.state.operators.sessions import sessions as sessions
    from skewless.spark.state.operators.top_n import top_n as top_n
    from skewless.spark.state.planning.scaling import scale_to as scale_to
    from skewless.spark.state.process import process as process
    from skewless.spark.state.processor import Append as Append
    from skewless.spark.state.processor import KeyedRecords as KeyedRecords
    from skewless.spark.state.processor import KeyProcessor as KeyProcessor
    from skewless.spark.state.processor import Processor as Processor
    from skewless.spark.state.processor import Update as Update
    from skewless.spark.state.reading import read_state as read_state
    from skewless.spark.state.savepoint import savepoint as savepoint
else:  # pyspark, pandas and numba take seconds to import
    _NAMES = {
        "aggregation.aggregate": "aggregate",
        "aggregation.windows": "Window",
        "balance.explaining": "explain_balance",
        "balance.listener": "BalanceListener",
        "configuring": "configure session",
        "diagnosis.explaining_writes": "explain_write",
        "diagnosis.hot_keys": "hot_keys observe_hot_keys observed_hot_keys",
        "joins.join": "join",
        "joins.plan_join": "JoinPlan plan_join",
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
    }
    __getattr__ = lazy_names(__name__, _NAMES)
    __all__ = sorted(name for names in _NAMES.values() for name in names.split())
    __dir__ = __all__.copy  # what an interactive session completes
