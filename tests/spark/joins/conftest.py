"""Small tables stand for large ones: Spark broadcasts none of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def spark(spark: Any) -> Iterator[Any]:
    """Return the session of the tests, which broadcasts nothing by itself."""
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    yield spark
    spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
