"""Spark's operators for keyed state in Python: which can run here, and their state store."""

from __future__ import annotations

import importlib.util

from pyspark.sql import GroupedData

from skewless.spark.session import SETTINGS

#: Spark's operators for states that are written in Python.
TRANSFORM, APPLY = "transformWithState", "applyInPandasWithState"
_STORE = "spark.sql.streaming.stateStore.providerClass"
#: `transformWithState` needs the state store of RocksDB.
ROCKSDB = {_STORE: SETTINGS[_STORE]}


def missing_for_transform() -> str | None:
    """Return what `transformWithState` needs and is missing; None if nothing is missing."""
    if not hasattr(GroupedData, TRANSFORM):
        return "this version of PySpark does not have it"
    try:
        there = importlib.util.find_spec("google.protobuf") is not None
    except ModuleNotFoundError:  # there is no package `google` at all
        there = False
    return None if there else "the package protobuf is not installed"
