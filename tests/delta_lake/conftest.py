"""A session that reads and writes Delta tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_sessions import local_settings

JARS = Path(__file__).parents[2] / ".jars" / "delta"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs Delta; `make test` leaves it out."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.delta)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Start a session with Delta; it cannot be added to one that runs already."""
    from pyspark.sql import SparkSession

    from skewless.spark import configure

    jars = sorted(JARS.glob("*.jar"))
    if not jars:
        pytest.skip("the jars of Delta are not there: run `make test-delta`")
    if SparkSession.getActiveSession() is not None:
        pytest.skip("a session without Delta runs in this process: run these tests alone")
    folder = tmp_path_factory.mktemp("delta-session")
    settings = local_settings(folder) | {
        "spark.jars": ",".join(map(str, jars)),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    builder = configure(SparkSession.builder).master("local[2]").appName("skewless-delta")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()
