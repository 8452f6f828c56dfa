"""What Spark has for keyed state in Python: which operators there are here, and their store."""

from __future__ import annotations

import importlib.util

from pyspark.sql import GroupedData

#: Spark's operators for states that are written in Python.
TRANSFORM, APPLY = "transformWithState", "applyInPandasWithState"
#: `transformWithState` needs the state store of RocksDB.
ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
}


def missing_for_transform() -> str | None:
    """Return what `transformWithState` needs and is not there; None if all is there."""
    if not hasattr(GroupedData, TRANSFORM):
        return "this version of PySpark does not have it"
    try:
        there = importlib.util.find_spec("google.protobuf") is not None
    except ModuleNotFoundError:  # there is no package `google` at all
        there = False
    return None if there else "the package protobuf is not installed"
