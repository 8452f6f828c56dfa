"""Generated code, which users run with; the other tests run without it, as their data is small."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import functions as F

from skewless.spark import aggregate, route
from spark.streams import (
    assert_same_batches,
    native,
    plain,
    read_stream,
    records,
    run,
    write_file,
)

pytestmark = pytest.mark.spark
SETTINGS = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}


@pytest.fixture
def generated(spark: Any) -> Iterator[Any]:
    """Return the session with Spark's own settings for generated code."""
    before = {name: spark.conf.get(name) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


def test_routing_decides_alike_with_and_without_generated_code(spark: Any, generated: Any) -> None:
    numbers = generated.range(0, 5000, 1, 2).select((F.col("id") % 7).alias("k"), "id")
    with_code = sorted(route(numbers, "k", workers=4, seed=1).collect())
    generated.conf.set("spark.sql.codegen.wholeStage", "false")
    generated.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    assert sorted(route(numbers, "k", workers=4, seed=1).collect()) == with_code
    assert len(with_code) == 5000


@pytest.mark.slow
def test_a_stream_equals_plain_spark_with_generated_code(generated: Any, tmp_path: Path) -> None:
    for number in range(2):
        write_file(tmp_path / "in", number, records(600, seed=number, seconds=(0, 200)))
    ours = aggregate(
        read_stream(generated, tmp_path / "in"),
        "k",
        native(),
        strategy="cascade",
        workers=4,
        ledger=str(tmp_path / "ledger"),
    )
    others = plain(read_stream(generated, tmp_path / "in"), ["k"], None, None)
    batches = run(ours, "update", tmp_path / "ours")
    assert_same_batches(batches, run(others, "update", tmp_path / "plain"), ["k"])
