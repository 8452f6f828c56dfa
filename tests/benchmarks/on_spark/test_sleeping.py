"""Streams whose records sleep: the same on Spark and in the simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="the benchmark runs on Spark")
from benchmarks.on_spark.sleeping import Job, Sleeping, on_spark, simulated
from skewless.aggregations import check_aggregator
from skewless.workloads import Zipf

JOB = Job(Zipf(z=1.4, n_keys=50, n_records=600), 300, n_workers=2, n_sources=1, record_s=0.0)


def test_the_aggregation_keeps_the_laws():
    assert check_aggregator(Sleeping(JOB))


def test_spark_routes_as_the_simulator_does(spark, tmp_path):
    """With one source; Spark numbers the files of several by their size."""
    found, expected = on_spark(spark, tmp_path, "fish", JOB), simulated("fish", JOB)
    for one in (found, expected):
        assert one.keys.size == 600
    rows = [np.lexsort((one.workers, one.keys, one.batches)) for one in (found, expected)]
    for column in ("keys", "workers", "batches"):
        ours, theirs = (
            getattr(one, column)[order] for one, order in zip((found, expected), rows, strict=True)
        )
        np.testing.assert_array_equal(ours, theirs)
    assert len(found.walls) == 2


def test_the_slow_half_takes_longer():
    even = replace(JOB, record_s=0.001, slowed=1.0)
    fair, slow = (simulated("shuffle", job).longest for job in (even, replace(even, slowed=2.0)))
    np.testing.assert_allclose(fair, 0.150)
    np.testing.assert_allclose(slow, 0.300)
