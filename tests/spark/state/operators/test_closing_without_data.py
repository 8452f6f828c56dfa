"""`closes_without_data`: what the watermark has passed comes without a further record, as in Spark.

Each stream is run to its end twice, with `availableNow`, and the second run continues the first.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from skewless.spark import deduplicate, join, read_state, sessions, top_n
from skewless.spark.ledger import LedgerMismatch
from spark.state.operators.comparing import in_text_order
from spark.state.operators.stepping import DDL, SECOND, Record, table_of
from spark.streams import configured, read_stream, run, write_file

pytestmark = pytest.mark.spark
DELAY = "10 seconds"
WATERMARK = ("ts", DELAY)
#: Of two runs, the micro-batches. Sessions of the first three keys are over at the end of each.
RUNS: list[list[list[Record]]] = [
    [[("a", 1, 0), ("b", 2, SECOND), (None, 3, 2 * SECOND)], [("c", 4, 60 * SECOND)]],
    [[("a", 5, 61 * SECOND), ("b", 6, 63 * SECOND)], [("d", 7, 200 * SECOND)]],
]


def ran_twice(
    spark: Any, folder: Path, query: Callable[[DataFrame], DataFrame]
) -> list[list[tuple[Any, ...]]]:
    """Return the rows of each run, sorted."""
    found = []
    for number, batches in enumerate(RUNS):
        for place, batch in enumerate(batches):
            write_file(folder / "in", 10 * number + place, table_of(batch))
        stream = read_stream(spark, folder / "in", DDL)
        rows = run(query(stream), "append", folder / "checkpoint")
        found.append(in_text_order([row for batch in rows.values() for row in batch]))
    return found


def test_the_last_sessions_come_without_a_further_record(spark: Any, tmp_path: Path) -> None:
    ledger = str(tmp_path / "ours" / "ledger")

    def ours(stream: DataFrame) -> DataFrame:
        settings: dict[str, Any] = {"ledger": ledger, "closes_without_data": True}
        return sessions(stream, "k", "5 seconds", watermark=WATERMARK, workers=3, **settings)

    def sparks(stream: DataFrame) -> DataFrame:
        window = F.session_window("ts", "5 seconds")
        grouped = stream.withWatermark(*WATERMARK).groupBy("k", window)
        counted = grouped.agg(F.count(F.lit(1)).alias("records"))
        return counted.select("k", "session_window.start", "session_window.end", "records")

    with configured(spark, {"spark.sql.shuffle.partitions": "2"}):
        found = ran_twice(spark, tmp_path / "ours", ours)
        assert found == ran_twice(spark, tmp_path / "spark", sparks)
        assert [len(rows) for rows in found] == [3, 3]
        assert [row["k"] for row in read_state(spark, ledger).collect()] == ["d"]
        stream = read_stream(spark, tmp_path / "ours" / "in", DDL)
        with pytest.raises(LedgerMismatch, match=r"was written for closes_without_data=True, not"):
            sessions(stream, "k", "5 seconds", watermark=WATERMARK, ledger=ledger)


def test_unmatched_rows_come_when_the_slower_side_has_passed_them(
    spark: Any, tmp_path: Path
) -> None:
    """The left side is far ahead: what the right side's last record ends comes at once."""
    ahead = table_of([("a", 1, 0), ("b", 2, SECOND), ("late", 3, 500 * SECOND)])
    right = [table_of([("a", 4, SECOND)]), table_of([("z", 5, 100 * SECOND)])]

    def rows_of(folder: Path, query: Callable[[Any, Any], DataFrame]) -> list[tuple[Any, ...]]:
        write_file(folder / "left", 0, ahead)
        for number, table in enumerate(right):
            write_file(folder / "right", number, table)
        sides = [read_stream(spark, folder / name, DDL) for name in ("left", "right")]
        rows = run(query(*sides), "append", folder / "checkpoint")
        return in_text_order([row for batch in rows.values() for row in batch])

    def ours(left: DataFrame, right: DataFrame) -> DataFrame:
        settings: dict[str, Any] = {"ledger": str(tmp_path / "ledger"), "batch_column": "batch"}
        settings |= {"how": "left", "workers": 2, "closes_without_data": True}
        pairs = join(left, right, "k", within="5 seconds", watermark=WATERMARK, **settings)
        return pairs.select("k", "v", "v_right")

    def sparks(left: DataFrame, right: DataFrame) -> DataFrame:
        mine, other = left.withWatermark(*WATERMARK), right.withWatermark(*WATERMARK)
        other = other.select(*[F.col(name).alias(f"{name}_right") for name in other.columns])
        near = F.expr(
            "k = k_right and ts_right between ts - interval 5 seconds and ts + interval 5 seconds"
        )
        return mine.join(other, near, "left").select("k", "v", "v_right")

    with configured(spark, {"spark.sql.shuffle.partitions": "2"}):
        found = rows_of(tmp_path / "ours", ours)
        assert found == rows_of(tmp_path / "spark", sparks)
        assert found == [("a", 1, 4), ("b", 2, None)]


def test_what_needs_no_watermark_and_other_ledgers_are_refused(spark: Any, tmp_path: Path) -> None:
    write_file(tmp_path / "in", 0, table_of(RUNS[0][0]))
    stream = read_stream(spark, tmp_path / "in", DDL)
    ledger = str(tmp_path / "ledger")
    with pytest.raises(ValueError, match=r"closes_without_data: states end by the watermark: give"):
        top_n(stream, "k", "v", 2, ledger=ledger, closes_without_data=True)
    settings: dict[str, Any] = {"within": DELAY, "watermark": WATERMARK, "ledger": ledger}
    with pytest.raises(ValueError, match=r"closes_without_data must be True or False, not 1"):
        deduplicate(stream, "k", closes_without_data=1, **settings)  # type: ignore[arg-type]
    run(deduplicate(stream, "k", workers=1, **settings), "append", tmp_path / "checkpoint")
    with pytest.raises(LedgerMismatch, match=r"was written for no closes_without_data, not True"):
        deduplicate(stream, "k", closes_without_data=True, **settings)
