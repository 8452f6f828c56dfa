"""`closes_without_data`: what the watermark has passed comes without a further record, as in Spark.

Streams are run to their end with `availableNow`, and most are then continued by a second run.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from skewless.spark import (
    KeyProcessor,
    deduplicate,
    explain_balance,
    join,
    process,
    read_state,
    sessions,
    top_n,
)
from skewless.spark.ledger import LedgerMismatch
from spark.state.chains import BEGIN
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
        with pytest.raises(LedgerMismatch, match=r"closes_without_data=True, not without it"):
            sessions(stream, "k", "5 seconds", watermark=WATERMARK, ledger=ledger)


def ending() -> KeyProcessor:
    """Return an object of a nested class, which workers need not import."""

    class Ending(KeyProcessor):
        """A state ends five seconds after its last record, and is then returned."""

        state_schema = "n bigint, expires timestamp"
        result_schema = "k string, n bigint"

        def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
            times = [record["t.s"] for record in records]
            n = len(times) + (state["n"] if state else 0)
            return [], {"n": n, "expires": max(times) + timedelta(seconds=5)}

        def expire_key(self, key: Any, state: Any, at: Any) -> Any:
            return [{"n": state["n"]}], None

    return Ending()


def test_a_killed_micro_batch_without_data_is_repeated_and_counted(
    spark: Any, tmp_path: Path
) -> None:
    """The first run has an ordinary trigger: it goes on, but the files come to an end."""
    ledger = str(tmp_path / "ledger")

    def results() -> DataFrame:
        stream = read_stream(spark, tmp_path / "in", DDL).withColumnRenamed("ts", "t.s")
        settings: dict[str, Any] = {"ledger": ledger, "batch_column": "batch", "workers": 2}
        settings |= {"watermark": ("t.s", DELAY), "closes_without_data": True}
        return process(stream, "k", ending(), **settings)

    def killed(rows: DataFrame, number: int) -> None:
        seen[number] = sorted(tuple(row) for row in rows.collect())
        if number == 2:
            raise RuntimeError("killed in the micro-batch without data")

    seen: dict[int, list[tuple[Any, ...]]] = {}
    write_file(tmp_path / "in", 0, table_of([("a", 1, 0), ("b", 2, SECOND), ("a", 3, SECOND)]))
    write_file(tmp_path / "in", 1, table_of([("c", 4, 60 * SECOND)]))
    checkpoint = str(tmp_path / "checkpoint")
    with configured(spark, {"spark.sql.shuffle.partitions": "2"}):
        writer = results().writeStream.foreachBatch(killed)
        query = writer.option("checkpointLocation", checkpoint).start()
        with pytest.raises(StreamingQueryException, match="killed in the micro-batch without data"):
            query.awaitTermination(300)
        first = {0: [], 1: [], 2: [("a", 2, 2), ("b", 1, 2)]}
        assert seen == first
        write_file(tmp_path / "in", 2, table_of([("d", 5, 200 * SECOND)]))
        again = run(results(), "append", tmp_path / "checkpoint")
    rows = {number: sorted(tuple(row) for row in some) for number, some in again.items()}
    assert rows == {2: first[2], 3: [], 4: [("c", 1, 4)]}
    assert [batch.records for batch in explain_balance(ledger).batches] == [3, 1, 0, 1, 0]
    assert [row["k"] for row in read_state(spark, ledger).collect()] == ["d"]


def test_states_before_1970_come_with_the_next_records(spark: Any, tmp_path: Path) -> None:
    """Spark's watermark begins at 1970, so it runs no micro-batch without data before that."""
    ledger = str(tmp_path / "ledger")

    def results() -> DataFrame:
        stream = read_stream(spark, tmp_path / "in", DDL).withColumnRenamed("ts", "t.s")
        settings: dict[str, Any] = {"ledger": ledger, "workers": 2, "closes_without_data": True}
        return process(stream, "k", ending(), watermark=("t.s", DELAY), **settings)

    found = []
    with configured(spark, {"spark.sql.shuffle.partitions": "2"}):
        for number, second in enumerate((0, 60, 61, 120)):
            time = second * SECOND - BEGIN - 3600 * SECOND
            write_file(tmp_path / "in", number, table_of([(f"k{number}", 1, time)]))
            if number % 2:
                rows = run(results(), "append", tmp_path / "checkpoint")
                found.append([tuple(row) for batch in rows.values() for row in batch])
    assert found == [[], [("k0", 1)]]


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
    with pytest.raises(LedgerMismatch, match=r"no closes_without_data, not True"):
        deduplicate(stream, "k", closes_without_data=True, **settings)
    settings |= {"ledger": str(tmp_path / "other"), "closes_without_data": True}
    for marked in (stream.withWatermark("ts", "1 hour"), stream.withWatermark("ts", DELAY)):
        with pytest.raises(ValueError, match=r"the stream has a watermark already"):
            deduplicate(marked, "k", **settings)
        with pytest.raises(ValueError, match=r"the stream has a watermark already"):
            join(stream, marked, "k", **settings)


@pytest.mark.parametrize("closes", [True, False])
def test_below_a_root_spark_refuses_another_choice_and_nothing_is_lost(
    spark: Any, tmp_path: Path, closes: bool
) -> None:
    """Both reads are of one source, which Spark counts twice."""
    checkpoint = tmp_path / "checkpoint"

    def rows(*, closes: bool) -> list[tuple[Any, ...]]:
        stream = read_stream(spark, tmp_path / "in", DDL).withColumnRenamed("ts", "t.s")
        settings: dict[str, Any] = {"workers": 2, "closes_without_data": closes}
        results = process(stream, "k", ending(), watermark=("t.s", DELAY), **settings)
        batches = run(results, "append", checkpoint)
        return [tuple(row) for batch in batches.values() for row in batch]

    root = {"skewless.ledger": tmp_path / "root", "skewless.checkpoint": checkpoint}
    settings = {f"spark.{name}": str(path) for name, path in root.items()}
    with configured(spark, settings | {"spark.sql.shuffle.partitions": "2"}):
        write_file(tmp_path / "in", 0, table_of([("a", 1, 0)]))
        assert rows(closes=closes) == []
        write_file(tmp_path / "in", 1, table_of([("b", 2, 60 * SECOND)]))
        before, after = (2, 1) if closes else (1, 2)
        told = rf"There are \[{before}\] sources in the checkpoint .* now there are \[{after}\]"
        with pytest.raises(StreamingQueryException, match=told):
            rows(closes=not closes)
        assert [path.name for path in (checkpoint / "sources").iterdir()] == ["0"]
        write_file(tmp_path / "in", 2, table_of([("c", 3, 120 * SECOND)]))
        assert sorted(rows(closes=closes)) == [("a", 1), ("b", 1)][: 1 + closes]
