"""What map tasks wrote is lost in the middle of a batch join: Spark runs them again.

Some tasks of the join are done by then. So every row must go to the same cells the second time,
though the tasks that send it may get their rows in another order.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from faults.conftest import require_faults
from skewless.planning.pairs import KEPT
from skewless.spark import join, plan_join

pytestmark = [pytest.mark.faults, pytest.mark.spark]

OFF = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # Nothing but equal decisions can save the results.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
}


@pytest.fixture
def session(spark: Any) -> Iterator[Any]:
    require_faults()
    before = {name: spark.conf.get(name, None) for name in OFF}
    for name, value in OFF.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def tables(spark: Any) -> tuple[DataFrame, DataFrame]:
    """Return two tables after a shuffle: their rows come in no certain order.

    The tables are small: Spark takes the results of its tasks along with their messages then, and
    they are not lost with the files.
    """
    key = F.when(F.col("id") % 10 > 0, F.lit(1)).otherwise(F.col("id") % 41)
    left = spark.range(200).select(key.alias("k"), F.col("id").alias("v"))
    right = spark.range(1000, 1120).select(key.alias("k"), F.col("id").alias("w"))
    return left.repartition(3, "v"), right.repartition(3, "w")


def disturbed(spark: Any, joined: DataFrame, place: Path) -> Counter[str]:
    """Return the rows; task 2 deletes all shuffle files that there are when it begins."""
    local, done = Path(spark.conf.get("spark.local.dir")), place / "done"

    def lose(batches: Any) -> Any:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and context.partitionId() == 2 and not done.exists():
            for file in local.rglob("shuffle_*"):
                file.unlink()
            done.touch()
        yield from batches

    rows = joined.mapInArrow(lose, joined.schema).collect()
    assert done.exists()
    return Counter(map(repr, rows))


@pytest.mark.parametrize("how", list(KEPT))
def test_a_lost_shuffle_loses_and_repeats_no_row(session: Any, how: str, tmp_path: Path) -> None:
    left, right = tables(session)
    expected = Counter(map(repr, left.join(right, "k", how).collect()))
    plan = plan_join(left, right, "k", how=how, workers=8, seed=1)
    joined = join(left, right, "k", how=how, plan=plan)
    assert disturbed(session, joined, tmp_path) == expected


def test_this_loss_harms_whoever_throws_dice(
    session: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shows that the test above can fail: here another attempt chooses other cells."""

    def dice() -> int:
        return random.getrandbits(62)

    thrown = F.udf(dice, "bigint").asNondeterministic()
    monkeypatch.setattr("skewless.spark.joins.cells.dealing", lambda *_: thrown())
    left, right = tables(session)
    expected = Counter(map(repr, left.join(right, "k").collect()))
    joined = join(left, right, "k", plan=plan_join(left, right, "k", workers=8, seed=1))
    assert disturbed(session, joined, tmp_path) != expected
