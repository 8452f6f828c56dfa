"""A query begins with states that it is given: exactly once, whatever is repeated or changed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from skewless.spark import KeyProcessor, explain_balance, process, read_state
from skewless.spark.ledger import Ledger, LedgerMismatch
from skewless.spark.state.versions import bases
from skewless.spark.state.versions.bases import initial_run
from spark.state.chains import BEGIN, DDL, SCHEMA, chain, chained, random_moves, records, rows_of
from spark.state.counting import SECOND, Visits, of_keys
from spark.state.eight_tables import TABLES, offsets_of, query, ran, rows
from spark.state.without_spark import Query
from spark.streams import read_stream, run, write_file

KIND = pa.timestamp("us", "UTC")
OURS = ("worker", "version", "bytes")


def counts() -> KeyProcessor:
    """Return an object of a nested class, which workers need not import."""

    class Counts(KeyProcessor):
        state_schema = "n bigint"
        result_schema = "k string, n bigint"

        def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
            n = len(records) + (state["n"] if state else 0)
            return [{"n": n}], {"n": n}

    return Counts()


def states_of_three(folder: Path) -> pa.Table:
    """Return the states after the first three tables."""
    return ran(folder, 3).states()


@pytest.mark.parametrize("workers", [1, 3, 5])
def test_a_query_with_the_states_of_another_goes_on_like_it(tmp_path: Path, workers: int) -> None:
    """The first plan has three workers; the query may start with another number of them."""
    states = states_of_three(tmp_path / "other")
    query(tmp_path / "ledger").begin_with(states)
    for first in (0, 0, 2):  # micro-batch 0 is repeated, then there is a restart
        one = query(tmp_path / "ledger", run=first + workers, workers=workers)
        found = [rows(one.step(batch, TABLES[3 + batch])) for batch in range(first, 5)]
        assert found == chained(TABLES)[3 + first :]


def test_states_without_a_first_micro_batch_can_be_read_and_replaced(tmp_path: Path) -> None:
    one = query(tmp_path / "ledger")
    one.begin_with(states_of_three(tmp_path / "wrong").slice(0, 3), run="wrong")
    states = states_of_three(tmp_path / "other")
    one.begin_with(states, run="right")
    assert (initial_run(one.ledger), bases.newest(one.ledger)) == ("right", (-1, "right", 3))
    assert rows(one.states()) == rows(states)
    found = [rows(one.step(batch, TABLES[3 + batch])) for batch in range(2)]
    assert found == chained(TABLES)[3:5]


def test_states_that_are_not_finished_do_not_count(tmp_path: Path) -> None:
    one = query(tmp_path / "ledger")
    one.begin_with(states_of_three(tmp_path / "other"))
    (tmp_path / "ledger" / "initial.json").unlink()  # the last file that is written
    assert rows(one.step(0, TABLES[0])) == chained(TABLES)[0]


def test_purged_states_are_not_taken_for_none(tmp_path: Path) -> None:
    one = query(tmp_path / "ledger", kept=1)
    one.begin_with(states_of_three(tmp_path / "other"))
    for batch in range(5):
        one.step(batch, TABLES[3 + batch])
    assert bases.batches(one.ledger)[0] > -1 or not bases.complete(one.ledger, -1)
    again = query(tmp_path / "ledger", run=1, checkpoint=offsets_of(TABLES[3:4]))
    with pytest.raises(LedgerMismatch, match="began with the states of initial_state="):
        again.step(0, TABLES[3])


def test_initial_states_end_by_ttl(tmp_path: Path) -> None:
    """The ttl counts from the time of the last record; without a time from the next one."""
    one = Query(tmp_path, Visits(), SCHEMA, time="ts", delay=0)
    seen = pa.array([BEGIN, BEGIN + 3 * SECOND, None], KIND)
    states = pa.table({"k": ["old", "new", "timeless"], "seen": seen, "n": [10, 20, 30]})
    assert one.begin_with(states) == []
    for batch, key in enumerate(("x", "y", "z")):
        one.step(batch, of_keys([key], batch + 2))
    # The watermark is at 3 s: 3 seconds after the last record of "old".
    found = one.step(3, of_keys(["old", "new", "timeless"], 5))
    assert rows(found) == [("new", 21), ("old", 1), ("timeless", 31)]


def test_keys_that_are_there_twice_are_told(tmp_path: Path) -> None:
    one = Query(tmp_path, counts(), SCHEMA)
    twice = one.begin_with(pa.table({"k": ["a", None, "b", None], "n": [1, 2, 3, 4]}))
    assert twice == ["null"]
    assert initial_run(one.ledger) is None


@pytest.mark.spark
def test_a_stream_begins_with_a_dataframe(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tables = [records(120, seed) for seed in range(5)]
    for number, table in enumerate(tables[:2]):
        write_file(tmp_path / "before", number, table)
    before = process(
        read_stream(spark, tmp_path / "before", DDL, files=2),
        "k",
        chain(),
        workers=2,
        ledger=str(tmp_path / "old" / "ledger"),
    )
    run(before, "append", tmp_path / "old" / "checkpoint")
    states = read_state(spark, str(tmp_path / "old" / "ledger")).drop(*OURS)
    found: dict[int, Any] = {}
    ledger = str(tmp_path / "ledger")
    whole = chained([pa.concat_tables(tables[:2]), *tables[2:]])
    for number, table in enumerate(tables[2:]):
        write_file(tmp_path / "in", number, table)
        caplog.clear()
        with caplog.at_level(logging.INFO, "skewless"):
            results = process(
                read_stream(spark, tmp_path / "in", DDL),
                "k",
                chain(),
                strategy=random_moves(),
                workers=3 - number,
                max_workers=3,
                ledger=ledger,
                initial_state=states if number < 2 else None,
            )
        assert ("initial_state is not read" in caplog.text) == (number == 1)
        if number == 0:
            held = read_state(spark, ledger)
            assert {row["version"] for row in held.collect()} == {-1}
            assert rows(held.drop(*OURS).toArrow()) == rows(states.toArrow())
        found |= run(results, "append", tmp_path / "checkpoint")
    assert rows_of(found) == whole[1:]
    balance = explain_balance(ledger)
    assert [batch.records for batch in balance.batches] == [120, 120, 120]


@pytest.mark.spark
def test_a_dataframe_that_does_not_fit_is_refused(spark: Any, tmp_path: Path) -> None:
    write_file(tmp_path / "in", 0, records(10, 0))
    stream = read_stream(spark, tmp_path / "in", DDL)
    ledger = str(tmp_path / "ledger")

    def refused(states: Any, message: str, df: Any = stream, **more: Any) -> None:
        given = {"workers": 2, "ledger": ledger, "initial_state": states, **more}
        with pytest.raises(ValueError, match=message):
            process(df, "k", given.pop("processor", counts()), **given)

    good = spark.createDataFrame([("a", 1), (None, 2)], "k string, n int")
    refused([("a", 1)], "initial_state must be a Spark DataFrame, not")
    refused(stream, "initial_state must be a batch DataFrame, and this one is a stream")
    refused(good.select("k"), "initial_state lacks the column 'n': it must have .* k string, n big")
    refused(good.selectExpr("*", "1 AS m"), "initial_state: unknown column 'm'")
    refused(good.selectExpr("k", "'1' AS n"), "column 'n' must be bigint, not string")
    refused(good.selectExpr("1 AS k", "n"), "column 'k' must be string, not int")
    refused(good.union(good), r"several states of the key (a|null): give one row for each key")
    refused(good, "initial_state is for streams", df=spark.createDataFrame(records(3, 0)))
    refused(good, "initial_state needs ledger=", ledger=None)
    timed = {"watermark": ("ts", "1 second"), "processor": Visits()}
    refused(good, "ttl, which counts from the last record .* the column 'ts'", **timed)
    refused(good.selectExpr("*", "'now' AS ts"), "'ts' must be timestamp, not string", **timed)
    assert not Path(ledger, "initial.json").exists()
    assert Ledger(ledger).identity() is None
    run(process(stream, "k", counts(), workers=2, ledger=ledger), "append", tmp_path / "check")
    with pytest.raises(LedgerMismatch, match="has begun without initial states"):
        process(stream, "k", counts(), workers=2, ledger=ledger, initial_state=good)


@pytest.mark.spark
def test_an_empty_dataframe_and_untrusted_keys(spark: Any, tmp_path: Path) -> None:
    write_file(tmp_path / "in", 0, of_keys(["a", "b", "a"]))
    for number, (states, wanted) in enumerate(
        [("1 = 0", [("a", 2), ("b", 1)]), ("1 = 1", [("a", 7), ("b", 1)])]
    ):
        initial = spark.createDataFrame([("a", 5)], "k string, n int").where(states)
        results = process(
            read_stream(spark, tmp_path / "in", DDL),
            "k",
            counts(),
            workers=3,
            ledger=str(tmp_path / f"ledger-{number}"),
            untrusted_keys=number == 1,
            initial_state=initial,
        )
        assert rows_of(run(results, "append", tmp_path / f"check-{number}")) == [wanted]


@pytest.mark.spark
def test_fields_with_names_of_other_columns(spark: Any, tmp_path: Path) -> None:
    """They are called as `read_state` calls them; the watermark's column is a field, too."""
    write_file(tmp_path / "in", 0, records(10, 0))
    stream = read_stream(spark, tmp_path / "in", DDL)

    class Same(KeyProcessor):
        state_schema = "k bigint, state_k bigint, ts bigint"
        result_schema = "k string, found string"

        def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
            return [{"found": f"{state}"}], state

    schema = "k string, state_state_k bigint, state_k bigint, ts bigint"
    states = spark.createDataFrame([("a", 1, 2, 3)], schema)
    given: dict[str, Any] = {"workers": 2, "watermark": ("ts", "1 day"), "initial_state": states}
    ledger = str(tmp_path / "ledger")
    process(stream, "k", Same(), ledger=ledger, **given)
    (row,) = read_state(spark, ledger).drop("worker", "version", "bytes").collect()
    assert row.asDict() == {"k": "a", "state_state_k": 1, "state_k": 2, "ts": 3}
    Same.ttl = "1 hour"
    with pytest.raises(ValueError, match="'ts' is both a field of its state and the time"):
        process(stream, "k", Same(), ledger=ledger + "2", **given)
