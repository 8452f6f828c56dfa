"""The guide to skewed writes: few files per key, no straggler, every record once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from skewless.spark import route

pytestmark = pytest.mark.spark


def test_only_the_hot_key_has_more_files(spark: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    tenants = np.where(rng.random(20_000) < 0.6, 0, rng.integers(1, 40, 20_000))
    (tmp_path / "in").mkdir()
    table = pd.DataFrame({"tenant": tenants, "x": np.arange(20_000)})
    table.to_parquet(tmp_path / "in" / "0.parquet")
    records = spark.read.parquet(str(tmp_path / "in"))
    routed = route(records, "tenant", workers=4, seed=1).drop("worker")
    routed.write.partitionBy("tenant").parquet(str(tmp_path / "out"))
    files = {
        int(folder.name.partition("=")[2]): len(list(folder.glob("*.parquet")))
        for folder in (tmp_path / "out").glob("tenant=*")
    }
    # 0.6 of all records are 2.4 tasks: only this key is too heavy for one, so only it is split.
    assert files.pop(0) == 3
    assert set(files.values()) == {1}
    written = spark.read.parquet(str(tmp_path / "out"))
    assert sorted(row.x for row in written.collect()) == list(range(20_000))


def test_a_stream_is_written_in_the_same_way(spark: Any, tmp_path: Path) -> None:
    tenants = [0] * 600 + list(range(1, 41)) * 10
    table = pd.DataFrame({"tenant": tenants, "x": range(1000)})
    (tmp_path / "in").mkdir()
    table.to_parquet(tmp_path / "in" / "0.parquet")
    stream = spark.readStream.schema("tenant long, x long").parquet(str(tmp_path / "in"))
    routed = route(stream, "tenant", workers=4, ledger=str(tmp_path / "ledger")).drop("worker")
    query = (
        routed.writeStream.partitionBy("tenant")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination()
    assert len(list((tmp_path / "out" / "tenant=0").glob("*.parquet"))) >= 2
    written = spark.read.parquet(str(tmp_path / "out"))
    assert sorted(row.x for row in written.collect()) == list(range(1000))
