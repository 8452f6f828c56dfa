"""Streams that Spark has no operator for, or no comparable one: equal to plain Python."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from skewless.spark import join, top_n
from spark.state.chains import in_order, random_moves
from spark.state.operators.comparing import settled
from spark.state.operators.plain_operators import joined, largest
from spark.state.operators.stepping import BEGIN, DDL, SECOND, drifting, table_of

pytestmark = pytest.mark.spark
BATCHES = drifting(3, 6, 40, 40)
TABLES = [[table_of(batch)] for batch in BATCHES]


def plain_row(row: Any) -> tuple[Any, ...]:
    """Return a row with times as microseconds after BEGIN; the session's time zone is UTC."""
    first = datetime(1970, 1, 1) + timedelta(microseconds=BEGIN)
    micro = timedelta(microseconds=1)
    return tuple(v if not isinstance(v, datetime) else (v - first) // micro for v in row)


@pytest.mark.slow
def test_the_largest_records_of_a_stream_with_the_numbers_of_their_micro_batches(
    spark: Any, tmp_path: Path
) -> None:
    moving: dict[str, Any] = {
        "strategy": random_moves(),
        "workers": 2,
        "ledger": str(tmp_path / "ledger"),
        "batch_column": "changed_in",
    }
    found = settled(
        spark, tmp_path / "run", DDL, TABLES, lambda s: top_n(s[0], "k", "v", 2, **moving)
    )
    assert found[0].asDict().keys() == {"k", "rank", "ts", "v", "changed_in"}
    changes = enumerate(largest(BATCHES, 2))
    wanted = [(*row, number) for number, rows in changes for row in rows]
    assert in_order(map(plain_row, found)) == in_order(wanted)


def test_a_stream_joined_with_itself(spark: Any, tmp_path: Path) -> None:
    """All kinds of records: null keys, which Spark's outer joins let meet, and null times."""
    settings: dict[str, Any] = {"how": "full", "watermark": ("ts", "15 seconds"), "workers": 2}
    settings |= {"strategy": random_moves(), "ledger": str(tmp_path / "ledger")}
    found = settled(
        spark,
        tmp_path / "run",
        DDL,
        TABLES,
        lambda s: join(s[0], s[0], "k", within="6 seconds", **settings),
    )
    pairs = joined([(batch, batch) for batch in BATCHES], 6 * SECOND, 15 * SECOND, "full")
    assert in_order(map(plain_row, found)) == in_order(row for rows in pairs for row in rows)
    assert len(found) > 50
