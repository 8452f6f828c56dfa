"""Streams that Spark has no operator for, or no comparable one: equal to plain Python."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from skewless import aggregations as aggs
from skewless.spark import deduplicate, join, sessions, top_n
from spark.state.chains import in_order, random_moves
from spark.state.operators.comparing import settled
from spark.state.operators.plain_operators import deduplicated, joined, largest, sessioned
from spark.state.operators.stepping import (
    BEGIN,
    DDL,
    SECOND,
    drifting,
    table_of,
    with_watermarks,
)

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


@pytest.mark.parametrize("verb", [deduplicate, sessions])
def test_late_records_come_with_the_results(spark: Any, tmp_path: Path, verb: Any) -> None:
    """The results are those without the column; all late records come, each once."""
    span, delay = 7 * SECOND, 15 * SECOND
    # A record of a session is late when the watermark has passed its time plus the gap.
    stays = 0 if verb is deduplicate else span
    given: dict[str, Any] = {"watermark": ("ts", "15 seconds"), "workers": 2}
    given |= {"strategy": random_moves(), "ledger": str(tmp_path / "ledger"), "late_column": "late"}
    if verb is deduplicate:
        given["within"], wanted = "7 seconds", deduplicated(BATCHES, span, delay)
    else:
        given |= {"gap": "7 seconds", "aggs": {"total": aggs.sum("v")}}
        wanted = sessioned(BATCHES, span, delay)
    found = settled(spark, tmp_path / "run", DDL, TABLES, lambda s: verb(s[0], "k", **given))
    results = [plain_row(row)[:-1] for row in found if row["late"] is None]
    assert in_order(results) == in_order(row for rows in wanted for row in rows)
    late = [
        record
        for watermark, batch in with_watermarks(BATCHES, delay, lambda record: record[2])
        for record in batch
        if record[2] is not None and record[2] + stays <= watermark
    ]
    assert len(late) > 5
    sides = [row["late"] for row in found if row["late"] is not None]
    assert in_order(map(plain_row, sides)) == in_order(late)
    assert sides[0].asDict().keys() == {"k", "v", "ts"}
