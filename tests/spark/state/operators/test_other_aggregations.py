"""Open sessions belong to their aggregations: others at a restart are refused in one line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, TimestampType

from skewless import aggregations as aggs
from skewless.spark.aggregation.state_layout import described
from skewless.spark.ledger import LedgerMismatch
from skewless.spark.state.operators.sessions import Sessions
from spark.state.chains import BEGIN
from spark.state.operators.stepping import SECOND
from spark.state.without_spark import Query

KIND = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [("k", pa.string()), ("v", pa.int64()), ("fee", pa.int64()), ("ts", KIND), ("ends", KIND)]
)
GAP = 20 * SECOND


def sessions(chosen: Mapping[str, Any]) -> Sessions:
    types = {name: SCHEMA.field(name).type for name in ("v", "fee")}
    inputs = {name: name for name in types}
    return Sessions(
        [StructField("k", StringType())], TimestampType(), GAP, "ts", inputs, chosen, types
    )


def step(folder: Path, batch: int, chosen: Mapping[str, Any], *rows: tuple[int, int]) -> list[Any]:
    """Return the sessions that end in a micro-batch of another run with these records."""
    values, seconds = zip(*rows, strict=True)
    times = [BEGIN + second * SECOND for second in seconds]
    table = pa.table(
        {
            "k": ["a"] * len(rows),
            "v": values,
            "fee": [1000] * len(rows),
            "ts": times,
            "ends": [time + GAP for time in times],
        },
        schema=SCHEMA,
    )
    query = Query(
        folder, sessions(chosen), SCHEMA, time="ends", delay=GAP, run=f"run-{batch}", workers=2
    )
    found = query.step(batch, table).to_pylist()
    return [{name: row[name] for name in chosen} for row in found]


BOTH = {"lo": aggs.min("v"), "hi": aggs.max("v")}


@pytest.mark.parametrize(
    ("others", "text"),
    [
        ({"lo": aggs.max("v"), "hi": aggs.min("v")}, "hi = Min"),
        ({"lo": aggs.min("fee"), "hi": aggs.max("v")}, "lo = Min.*fee"),
        ({"low": aggs.min("v"), "hi": aggs.max("v")}, "low = Min"),
        ({"lo": aggs.min("v")}, "lo = Min"),
        ({**BOTH, "n": aggs.count()}, "n = Count"),
    ],
    ids=["other classes", "another input", "another name", "fewer", "more"],
)
def test_other_aggregations_are_refused(tmp_path: Path, others: Any, text: str) -> None:
    step(tmp_path, 0, BOTH, (5, 0), (7, 1))
    with pytest.raises(LedgerMismatch, match=text) as caught:
        step(tmp_path, 1, others, (6, 10))
    assert "\n" not in str(caught.value)
    assert "aggregations: hi = Max(column='v'), lo = Min(column='v')" in str(caught.value)


def test_another_parameter_is_refused(tmp_path: Path) -> None:
    step(tmp_path, 0, {"spread": aggs.variance("v")}, (5, 0))
    with pytest.raises(LedgerMismatch, match=r"population=False\), not .*population=True\)"):
        step(tmp_path, 1, {"spread": aggs.variance("v", population=True)}, (6, 10))


def test_the_order_of_aggregations_does_not_matter(tmp_path: Path) -> None:
    turned = dict(reversed(BOTH.items()))
    assert list(turned) != list(BOTH)
    step(tmp_path, 0, BOTH, (5, 0), (7, 1))
    step(tmp_path, 1, turned, (6, 10))
    step(tmp_path, 2, BOTH, (0, 100))
    assert step(tmp_path, 3, turned, (0, 101)) == [{"hi": 7, "lo": 5}]


class Product:
    """Has the shape of Spark's Aggregator."""

    def __init__(self, factor: int = 1) -> None:
        self.factor = factor

    def zero(self) -> int:
        return 1

    def reduce(self, a: int, b: Any) -> int:
        return a * int(b) * self.factor

    def merge(self, a: int, b: int) -> int:
        return a * b

    def finish(self, a: int) -> int:
        return a


def test_own_aggregators_are_known_by_what_they_are_and_not_by_their_address() -> None:
    def text(factor: int, column: str = "v") -> str:
        own = aggs.reducing(Product(factor), inputs=column, state="bigint", result="bigint")
        return described(aggs.PerKey(own))

    assert text(2) == text(2) == "Product(v, factor=2)"
    assert len({text(2), text(3), text(2, "fee")}) == 3
