"""A stream that fails and is started again goes on as if nothing had happened.

The many other ways to fail are in `tests/faults`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from faults.jobs import bombs
from faults.jobs.bombs import STRATEGIES, lay, not_fired
from faults.jobs.starting import plans_of, write_records

pytestmark = pytest.mark.spark


def run(
    spark: Any, strategy: str, records: Path, folder: Path, results: dict[int, Counter[Any]]
) -> None:
    from skewless import aggregations as aggs
    from skewless.spark.aggregation.aggregate import aggregate

    stream = (
        spark.readStream.schema("k string, v bigint, ts timestamp")
        .option("maxFilesPerTrigger", 4)
        .parquet(str(records))
    )
    counted = aggregate(
        stream,
        "k",
        {"n": aggs.count(), "s": aggs.sum("v")},
        strategy=STRATEGIES[strategy](folder=str(folder)),
        workers=4,
        seed=0,
        ledger=str(folder / "ledger"),
    )

    def keep(batch: Any, number: int) -> None:
        results[number] = Counter((row.k, row.n, row.s) for row in batch.collect())

    query = (
        counted.writeStream.outputMode("update")
        .foreachBatch(keep)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()


@pytest.mark.parametrize(
    "strategy", [pytest.param("cascade", marks=pytest.mark.slow), "cascade-ahead"]
)
def test_a_query_that_failed_continues_with_equal_results_and_plans(
    spark: Any, tmp_path: Path, strategy: str
) -> None:
    from pyspark import cloudpickle
    from pyspark.errors import StreamingQueryException

    cloudpickle.register_pickle_by_value(bombs)  # Spark's workers cannot import the tests
    write_records(tmp_path / "records")
    expected: dict[int, Counter[Any]] = {}
    run(spark, strategy, tmp_path / "records", tmp_path / "calm", expected)
    assert sorted(expected) == [0, 1]

    results: dict[int, Counter[Any]] = {}
    failing = tmp_path / "failing"
    lay(failing, "route.1.any.raise")
    with pytest.raises(StreamingQueryException, match="as the test asked for"):
        run(spark, strategy, tmp_path / "records", failing, results)
    assert sorted(results) == [0]
    assert sorted(plans_of(failing)) == [0, 1]  # the plan of the batch that failed is published
    run(spark, strategy, tmp_path / "records", failing, results)
    assert not_fired(failing) == []
    assert results == expected
    assert plans_of(failing) == plans_of(tmp_path / "calm")
