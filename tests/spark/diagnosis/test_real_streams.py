"""What is told about real streams: `SKEWLESS_DATA` names a folder of Parquet files with `key`.

The streams are not part of the project; without the folder these tests are skipped.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from skewless.spark import hot_keys, route

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FOLDER = os.environ.get("SKEWLESS_DATA")
STREAMS = sorted(Path(FOLDER).glob("*.parquet")) if FOLDER else []
WORKERS = 16
STRATEGIES = ("cascade-ahead", "pd-stream", "pkg")


@pytest.mark.skipif(not STREAMS, reason="SKEWLESS_DATA names no folder with real streams")
@pytest.mark.parametrize("n_partitions", [1, 2, 8])
@pytest.mark.parametrize("stream", STREAMS, ids=lambda path: path.stem)
def test_replicas_are_as_predicted(spark: Any, stream: Path, n_partitions: int) -> None:
    df = spark.read.parquet(str(stream)).select("key").coalesce(1)
    df = df.repartition(n_partitions) if n_partitions > 1 else df
    df = df.cache()
    try:
        n_keys = df.distinct().count()
        found = hot_keys(df, "key", workers=WORKERS, strategies=STRATEGIES, seed=3)
        predicted = {one.strategy: one.replication for one in found.predictions}
        for name in STRATEGIES:
            sent = route(df, "key", strategy=name, workers=WORKERS, seed=3)
            pairs = sent.select("key", F.spark_partition_id()).distinct().count()
            assert predicted[name] == pytest.approx(pairs / n_keys, rel=0.2), name
    finally:
        df.unpersist()
