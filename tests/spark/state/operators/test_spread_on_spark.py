"""Hot keys of a join on Spark: found, spread over several workers, and each pair met once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from skewless.spark import join
from skewless.spark.ledger import Ledger
from skewless.spark.ledger.names import state_plan_name
from skewless.spark.state.versions import bases
from spark.state.chains import BEGIN
from spark.state.operators.comparing import in_text_order, settled

pytestmark = pytest.mark.spark

DDL = "k string, v bigint, ts timestamp"
NEAR = "abs(unix_micros(l.ts) - unix_micros(r.ts)) <= 2000000"
WATERMARK = ("ts", "1 day")


def records(n_hot: int, seed: int, hot: str = "hot") -> pa.Table:
    """Return records of a hot key and a few others, among them nulls, within a minute."""
    rng = np.random.default_rng(seed)
    keys = [hot] * n_hot + [None if i % 9 == 0 else f"k{i % 40}" for i in range(120)]
    micros = BEGIN + rng.integers(0, 60_000_000, len(keys))
    schema = pa.schema([("k", pa.string()), ("v", pa.int64()), ("ts", pa.timestamp("us", "UTC"))])
    values = rng.integers(0, 1_000_000, len(keys)).tolist()
    return pa.table({"k": keys, "v": values, "ts": micros.tolist()}, schema=schema)


def of_spark(spark: Any, left: pa.Table, right: pa.Table, how: str) -> list[Any]:
    """Join batch DataFrames by Spark's own join."""
    one, other = (spark.createDataFrame(t.to_pandas(), DDL) for t in (left, right))
    both = one.alias("l").join(other.alias("r"), F.expr(f"l.k = r.k AND {NEAR}"), how)
    key = F.coalesce("l.k", "r.k").alias("k")
    rows = both.select(key, "l.v", "l.ts", F.col("r.v").alias("v2"), F.col("r.ts").alias("ts2"))
    found: list[Any] = rows.collect()
    return found


@pytest.mark.parametrize(
    ("how", "n_left", "n_right", "is_spread"),
    [
        ("inner", 2_500, 60, True),
        pytest.param("inner", 60, 2_500, True, marks=pytest.mark.slow),
        pytest.param("left", 2_500, 60, True, marks=pytest.mark.slow),
        pytest.param("right", 60, 2_500, True, marks=pytest.mark.slow),
        # The right side would have to be spread.
        pytest.param("left", 60, 2_500, False, marks=pytest.mark.slow),
        pytest.param("full", 2_500, 60, False, marks=pytest.mark.slow),
    ],
)
def test_hot_keys_of_batches(
    spark: Any, how: str, n_left: int, n_right: int, is_spread: bool
) -> None:
    tables = records(n_left, 1), records(n_right, 2)
    left, right = (spark.createDataFrame(table.to_pandas(), DDL) for table in tables)
    settings: dict[str, Any] = {"how": how, "watermark": WATERMARK, "workers": 4}
    found = join(left, right, "k", within="2 seconds", **settings)
    wanted = of_spark(spark, *tables, how)
    assert in_text_order(found.collect()) == in_text_order(wanted)
    workers = found.where("k = 'hot'").select(F.spark_partition_id()).distinct().count()
    assert (workers > 1) == is_spread


@pytest.mark.slow
@pytest.mark.parametrize("untrusted", [False, True])
def test_a_key_that_becomes_hot_while_a_stream_runs(
    spark: Any, tmp_path: Path, untrusted: bool
) -> None:
    """First neither side is hot, then the left one; then the key is known and gets hotter."""
    sizes = [(200, 150), (1_500, 40), (1_600, 50), (4_000, 30)]
    batches = [
        [records(left, 2 * number), records(right, 2 * number + 1)]
        for number, (left, right) in enumerate(sizes)
    ]
    ledger = str(tmp_path / "ledger")
    settings: dict[str, Any] = {"watermark": WATERMARK, "workers": 4, "ledger": ledger}
    found = settled(
        spark,
        tmp_path / "run",
        DDL,
        batches,
        lambda s: join(s[0], s[1], "k", within="2 seconds", untrusted_keys=untrusted, **settings),
    )
    left, right = (pa.concat_tables([batch[side] for batch in batches]) for side in (0, 1))
    assert in_text_order(found) == in_text_order(of_spark(spark, left, right, "inner"))
    spread = []
    for batch in bases.batches(Ledger(ledger)):
        base = bases.complete(Ledger(ledger), batch)
        entry = base and Ledger(ledger).read(state_plan_name(batch, base.run))
        assert entry
        spread.append(entry.arrays.get("spread.parts", np.empty(0)).tolist())
    # The files of a side may be seen before those of the other one, in a micro-batch of their own.
    assert spread[0] == []
    assert len(spread[-1]) == 1
    assert spread[-1][0] > 1
