"""What all tests share: one Spark session per test process, started when first asked for."""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from spark_sessions import local_settings

# A first call compiles, so time says nothing about a test; and a red run must be red again.
settings.register_profile(
    "skewless",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("skewless")


# Without pyspark (it needs Python 3.11) everything but its folder can still be tested.
if importlib.util.find_spec("pyspark") is None:
    _FOLDERS = ("spark", "apps", "faults", "versions", "cluster", "kafka", "delta_lake")
    collect_ignore_glob = [f"{folder}/*" for folder in _FOLDERS]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep tests together that need the same kernels or the same queries.

    One process then compiles the kernels of a system while another has other work, and no query of
    a module runs twice.
    """
    if not config.pluginmanager.hasplugin("xdist"):  # environments of other versions of Spark
        return
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))


def _group(item: pytest.Item) -> str:
    parts = item.path.relative_to(item.config.rootpath).parts
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    strategy = getattr(parameters.get("strategy"), "name", None)
    if parts[:2] == ("tests", "contract") and isinstance(strategy, str):
        return strategy.replace("-", "_")
    if parts[:2] == ("tests", "strategies"):
        return parts[2].removeprefix("test_").removesuffix(".py")
    return "/".join(parts)


FULL_MATRIX = os.environ.get("SKEWLESS_FULL_MATRIX") == "1"
#: Small data: compiling a query takes longer than running it. `make test-matrix`, the fault tests
#: and the benchmarks run with the settings that Spark has by itself.
QUICK_START = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return a local session with two slots; its files lie in a folder of this test process."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from pyspark.sql import SparkSession

    from skewless.spark import configure
    from skewless.spark.finding_java import find_java

    try:
        os.environ["JAVA_HOME"] = str(find_java())
    except RuntimeError as error:
        pytest.skip(str(error))

    folder = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what PySpark itself warns of while it starts
        builder = configure(SparkSession.builder)
        quick = {} if FULL_MATRIX else QUICK_START
        for name, value in (local_settings(folder) | quick).items():
            builder = builder.config(name, value)
        session = builder.master("local[2]").appName("skewless-tests").getOrCreate()
    yield session
    session.stop()
