"""A session that speaks to Kafka, and a broker for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka.broker import BROKER, CONNECTOR, Broker, connector_jars
from spark_sessions import local_settings


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a broker; `make test` leaves it out."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.kafka)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Start a session with the connector; it cannot be added to one that runs already."""
    from pyspark.sql import SparkSession

    from skewless.spark import configure

    if not list(CONNECTOR.glob("*.jar")) or not list(BROKER.glob("*.jar")):
        pytest.skip("the jars of Kafka are not there: run `make test-kafka`")
    if SparkSession.getActiveSession() is not None:
        pytest.skip("a session without the connector runs in this process: run these tests alone")
    folder = tmp_path_factory.mktemp("kafka-session")
    builder = configure(SparkSession.builder).master("local[2]").appName("skewless-kafka")
    for name, value in (local_settings(folder) | {"spark.jars": connector_jars()}).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "broker") as started:
        yield started
