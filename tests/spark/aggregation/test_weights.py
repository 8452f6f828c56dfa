"""What records cost, on Spark: what is no cost counts as 1, and nothing else gets through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.errors import PythonException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from skewless.keys import hash_keys
from skewless.spark.records import Records
from skewless.spark.routing.arguments import routing_arguments
from skewless.spark.routing.route import make_router, route, routed
from skewless.strategies.cascade import Cascade

pytestmark = pytest.mark.spark
N_RECORDS, N_WORKERS = 600, 3
#: What stands in the column, and what it counts as.
COSTS = [
    ("2.5D", 2.5),
    ("4D", 4.0),
    ("0D", 0.0),
    ("-3D", 1.0),
    ("double('NaN')", 1.0),
    ("double('Infinity')", 1.0),
    ("null", 1.0),
]


@pytest.fixture(scope="module")
def numbered(spark: Any) -> DataFrame:
    """Records in one partition, so that there is one source."""
    cases = " ".join(
        f"when id % {len(COSTS)} = {case} then {text}" for case, (text, _) in enumerate(COSTS)
    )
    df: DataFrame = spark.range(0, N_RECORDS, 1, 1).selectExpr(
        "id", "id * id % 29 as k", f"case {cases} end as cost"
    )
    return df


def routed_here(costs: Sequence[float]) -> list[int]:
    """Return the workers without Spark, with these costs in turn."""
    ids = np.arange(N_RECORDS)
    keys = hash_keys(pa.array(ids * ids % 29))
    strategy, out = Cascade(), np.full(N_RECORDS, -1, np.int32)
    weights = np.resize(np.array(costs), N_RECORDS)
    strategy.route_weighted(keys, weights, strategy.start(N_WORKERS, 5), out)
    return [int(worker) for worker in out]


@pytest.mark.slow
def test_nothing_costs_nothing_and_what_is_no_cost_counts_as_one(numbered: DataFrame) -> None:
    costs = [cost for _, cost in COSTS]
    wanted = routed_here(costs)
    rows = route(
        numbered, "k", strategy="cascade", workers=N_WORKERS, seed=5, weight="cost"
    ).collect()
    found = {row["id"]: row["worker"] for row in rows}
    assert [found[i] for i in range(N_RECORDS)] == wanted
    for case, cost in enumerate(costs):  # with another cost, Spark would have routed otherwise
        other = 0.0 if cost else 1.0
        assert routed_here([*costs[:case], other, *costs[case + 1 :]]) != wanted


def test_the_router_refuses_weights_that_are_no_costs(numbered: DataFrame) -> None:
    given = routing_arguments(numbered, workers=N_WORKERS, seed=5)
    by = Records.of(numbered).by("k").key
    router = make_router(numbered, by, "cascade", given)
    bare = routed(numbered.where("id % 7 in (0, 3)"), router, by, F.col("cost"), "worker")
    with pytest.raises(PythonException, match=r"at least 0; that of record 1 is -3\.0"):
        bare.collect()


def test_the_router_refuses_weights_for_a_strategy_without_scales(numbered: DataFrame) -> None:
    given = routing_arguments(numbered, workers=N_WORKERS, seed=5)
    by = Records.of(numbered).by("k").key
    router = make_router(numbered, by, "pkg", given)
    bare = routed(numbered, router, by, F.lit(1.0), "worker")
    with pytest.raises(PythonException, match="'pkg' does not weigh records"):
        bare.collect()
