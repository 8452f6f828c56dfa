"""A state that was written for another query is refused, and the message says what differs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupStateTimeout

from skewless import aggregations as aggs
from skewless.aggregations import PerKey
from skewless.spark.aggregation.aggregate import aggregate
from skewless.spark.aggregation.block_merging import BlockMerger
from skewless.spark.aggregation.partials import BLOCK, FORMAT, N_SLOTS, Packing, Partials, by_key
from skewless.spark.aggregation.state_layout import (
    StateMismatch,
    described,
    layout_text,
    layout_type,
    require_layout,
    state_layout,
    type_text,
)
from skewless.spark.aggregation.windows import Window
from skewless.spark.ledger.ledger import Ledger, LedgerMismatch
from skewless.spark.slots import even_slots
from spark.streams import assert_same_rows, configured, plain, read_stream, records, run, write_file

SCHEMA_CHECK = "spark.sql.streaming.stateStore.stateSchemaCheck"
RECORDS = pa.schema([("k", pa.string()), ("j", pa.string()), ("v", pa.int64()), ("x", pa.int64())])


def own_aggregators() -> tuple[Any, Any]:
    """Return two classes as a user writes them; Spark gets them with the query."""

    class Extent(aggs.Aggregator[Any]):
        """An aggregator whose state can be declared in many ways."""

        inputs = ("v",)
        result = "bigint"

        def __init__(self, state: str = "struct<low: bigint, high: bigint>", **others: Any) -> None:
            self.state = state
            self.__dict__.update(others)

        def zero(self) -> Any:
            return None

        def update(self, state: Any, batch: pa.RecordBatch) -> Any:
            values = batch["v"].drop_null().to_pylist()
            return self.merge(state, {"low": min(values), "high": max(values)}) if values else state

        def merge(self, a: Any, b: Any) -> Any:
            if a is None or b is None:
                return b if a is None else a
            return {"low": min(a["low"], b["low"]), "high": max(a["high"], b["high"])}

        def finish(self, state: Any) -> Any:
            return None if state is None else int(state["high"] - state["low"])

    class Extension(Extent):
        """Another aggregator with the same state."""

    return Extent, Extension


Extent, Extension = own_aggregators()


def layout_of(
    results: dict[str, Any] | None = None,
    key: tuple[str, ...] = ("k",),
    window: Window | None = None,
    schema: pa.Schema = RECORDS,
) -> str:
    given = results or {"n": aggs.count(), "e": Extent()}
    chosen = {n: PerKey(a) if isinstance(a, aggs.Aggregator) else a for n, a in given.items()}
    partials = Partials(schema, key, chosen)
    return layout_text(state_layout(partials, key, list(given), window))


N, E = aggs.count(), Extent()
TEXT_KEYS = RECORDS.set(0, pa.field("k", pa.large_string()))
CHANGES: dict[str, tuple[str, str]] = {
    "a wider type": (
        layout_of({"n": N, "e": Extent("struct<low: double, high: double>")}),
        "state 2 .*low: int64, high: int64>', not 'e = .*low: double, high: double>'",
    ),
    "fields in another order": (
        layout_of({"n": N, "e": Extent("struct<high: bigint, low: bigint>")}),
        "state 2 .*low: int64, high: int64>', not .*high: int64, low: int64>'",
    ),
    "a renamed field": (
        layout_of({"n": N, "e": Extent("struct<low: bigint, top: bigint>")}),
        "high: int64>', not .*top: int64>'",
    ),
    "a field less": (layout_of({"n": N, "e": Extent("struct<low: bigint>")}), "<low: int64>'"),
    "a result less": (layout_of({"n": N}), "state 2 'e = Extent.*, not 'nothing'"),
    "a result more": (
        layout_of({"n": N, "e": E, "s": aggs.sum("v")}),
        r"state 3 'nothing', not .s = Sum\(column='v'\): int64",
    ),
    "results in another order": (layout_of({"e": E, "n": N}), "state 1 'n = .*; state 2 'e = "),
    "a renamed result": (layout_of({"n": N, "f": E}), "state 2 'e = .*, not 'f = "),
    "another input": (layout_of({"n": aggs.count("v"), "e": E}), r"column=None\).*column='v'"),
    "another class": (layout_of({"n": N, "e": Extension()}), r"Extent\(v\).*Extension\(v\)"),
    "another parameter": (layout_of({"n": N, "e": Extent(digits=3)}), r"Extent\(v, digits=3\)"),
    "another key": (layout_of(key=("j",)), "state key 'k: string', not 'j: string'"),
    "a key more": (layout_of(key=("k", "j")), "'k: string', not 'k: string, j: string'"),
    "another type of key": (layout_of(schema=TEXT_KEYS), "not 'k: large_string'"),
    "windows": (
        layout_of(window=Window("ts", "1 second")),
        "state windows 'none', not '1000000 µs",
    ),
    "no state of ours": ("[]", r"was written for .*, not '\[\]'"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_named_by_what_was_and_what_is(change: str) -> None:
    now, message = CHANGES[change]
    require_layout(layout_of(), layout_of())
    with pytest.raises(StateMismatch, match=message) as caught:
        require_layout(layout_of(), now)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("or the query that this one was written for")


@pytest.mark.parametrize("written", [None, "", "null", "format 1"])
def test_a_state_without_a_layout_is_refused(written: str | None) -> None:
    with pytest.raises(StateMismatch, match="the state in the checkpoint was written for"):
        require_layout(written, layout_of())


def test_windows_are_compared_by_their_lengths_not_by_their_texts() -> None:
    def text(*window: str) -> str:
        return layout_of(window=Window("ts", *window))

    assert text("60 seconds") == text("1 minute", "1 minute")
    assert text("60 seconds", "30 seconds", "-10 seconds") == text(
        "1 minute", "30 second", "20 seconds"
    )
    assert len({text("1 hour"), text("2 hours"), text("1 hour", "30 minutes")}) == 3


def test_the_parameters_of_an_own_aggregator_are_compared_and_never_shown_as_text() -> None:
    def text(**parameters: Any) -> str:
        return described(PerKey(Extent(**parameters)))

    assert text(a=1, b=0.5, c=None) == "Extent(v, a=1, b=0.5, c=None)"
    assert text(step=np.float64(0.5)) == "Extent(v, step=0.5)"
    assert "password" not in text(token="password")
    same = [{"a": [1, {"b", "c"}]}, {"a": {"x": [1], "y": 2}}, {"a": np.arange(3)}, {"a": "é"}]
    other = [{"a": [1, {"b", "d"}]}, {"a": {"x": [2], "y": 2}}, {"a": np.arange(4)}, {"a": "e"}]
    for one, another in zip(same, other, strict=True):
        assert text(**one) == text(**one)
        assert text(**one) != text(**another)
    # What has no text that outlives the process does not count, nor what is private.
    assert text(a=object()) == "Extent(v, a=object)"
    assert text(a=[object()]) == "Extent(v, a=list)"
    assert text(_cache=1) == text()


def test_other_layouts_have_other_types_of_the_same_length() -> None:
    """Spark ignores the names of columns."""

    def kinds(text: str) -> list[str]:
        fields = layout_type(json.loads(text)).fields
        return [field.dataType.simpleString() for field in fields]

    before = kinds(layout_of())
    assert kinds(layout_of()) == before
    texts = [text for text, _ in CHANGES.values() if text != "[]"]
    assert before not in [kinds(text) for text in texts]
    digests = {kind for number in range(2000) for kind in kinds(json.dumps({"n": str(number)}))}
    assert len(digests) == 2000


def test_types_are_told_apart_as_they_are_stored() -> None:
    kinds = [pa.string(), pa.large_string(), pa.timestamp("us"), pa.timestamp("ms"), pa.int64()]
    kinds += [pa.map_(pa.string(), pa.int64()), pa.list_(pa.int32()), pa.large_list(pa.int32())]
    assert len({type_text(kind) for kind in kinds}) == len(kinds)
    named = pa.list_(pa.field("element", pa.int32()))
    assert type_text(named) == type_text(pa.list_(pa.int32())) == "list<int32>"


class Group:
    """The state of one group of Spark, as the merging sees it."""

    hasTimedOut = False  # noqa: N815 - Spark's name

    def __init__(self) -> None:
        self.get: Any = None

    @property
    def exists(self) -> bool:
        return self.get is not None

    def update(self, value: Any) -> None:
        self.get = value


def test_no_result_leaves_a_group_whose_state_was_written_for_another_query() -> None:
    partials = Partials(RECORDS, ("k",), {"e": PerKey(Extent())})
    table = partials.update(pa.table([["a"], ["b"], [1], [2]], schema=RECORDS))
    (packed,) = Packing(partials, even_slots(N_SLOTS)).pack(table)
    frame = pd.DataFrame({BLOCK: packed.column(BLOCK).to_pylist()})
    group: Any = Group()
    first = BlockMerger(by_key(partials), None, False, "update", layout_of())
    assert len(list(first.merge((0,), iter([frame]), group))) == 1
    assert len(list(first.merge((0,), iter([frame]), group))) == 1
    kept = group.get
    now = layout_of({"n": N, "e": Extent("struct<low: double, high: double>")})
    second = BlockMerger(by_key(partials), None, False, "update", now)
    with pytest.raises(StateMismatch, match="state 2"):
        next(second.merge((0,), iter([frame]), group))
    assert group.get == kept


@pytest.mark.slow
@pytest.mark.spark
def test_a_changed_query_is_refused_and_the_right_one_goes_on(spark: Any, tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger")

    def query(state: str, folder: str | None) -> Any:
        chosen = {"var": aggs.variance("v"), "spread": Extent(state)}
        df = read_stream(spark, tmp_path / "in")
        return aggregate(df, "k", chosen, strategy="cascade", workers=2, ledger=folder)

    right, wrong = "struct<low: bigint, high: bigint>", "struct<low: double, high: double>"
    checkpoint = tmp_path / "checkpoint"
    write_file(tmp_path / "in", 0, records(200, seed=1))
    run(query(right, ledger), "update", checkpoint)
    write_file(tmp_path / "in", 1, records(200, seed=2))
    message = r"written for state 2.*low: int64, high: int64>.* not .*low: double, high: double>"
    with pytest.raises(LedgerMismatch, match=message):
        query(wrong, ledger)
    with pytest.warns(UserWarning, match="no ledger"):
        changed = query(wrong, None)
    with pytest.raises(Exception, match="STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE") as refused:
        run(changed, "update", checkpoint)
    for state in ("int64", "double"):  # Spark's message has both layouts
        assert f"state 2: spread = Extent(v): struct<low: {state}, high: {state}>" in str(
            refused.value
        )
    with (
        configured(spark, {SCHEMA_CHECK: "false"}),
        pytest.raises(Exception, match=message) as ours,
    ):
        run(changed, "update", checkpoint)
    assert "StateMismatch" in str(ours.value)
    batches = run(query(right, ledger), "update", checkpoint)
    there = spark.read.parquet(str(tmp_path / "in"))
    touched = {row["k"] for row in batches[1]}
    wanted = plain(there, ["k"], None, names=["var", "spread"]).collect()
    assert_same_rows(batches[1], [row for row in wanted if row["k"] in touched], ["k"])
    identity = Ledger(ledger).identity()
    assert identity is not None
    assert identity["blocks"] == FORMAT


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:no ledger")
def test_other_windows_are_refused_even_where_they_meet_no_state(
    spark: Any, tmp_path: Path
) -> None:
    """The old windows of the keys lie elsewhere, and results of new ones would be incomplete."""

    def query(size: str) -> Any:
        df, chosen = read_stream(spark, tmp_path / "in"), {"var": aggs.variance("v")}
        times = {"window": ("ts", size), "watermark": "0 seconds"}
        return aggregate(df, "k", chosen, strategy="cascade", workers=2, **times)

    write_file(tmp_path / "in", 0, records(50, seed=1, seconds=(60, 100)))
    run(query("60 seconds"), "append", tmp_path / "checkpoint")
    write_file(tmp_path / "in", 1, records(50, seed=2, seconds=(120, 200)))
    with pytest.raises(Exception, match="STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE") as caught:
        run(query("120 seconds"), "append", tmp_path / "checkpoint")
    assert "state windows: 60000000 µs long" in str(caught.value)
    assert "state windows: 120000000 µs long" in str(caught.value)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:no ledger")
def test_a_state_of_the_first_format_is_refused_by_spark(spark: Any, tmp_path: Path) -> None:
    """It had other slots, so that its blocks would never be found."""
    write_file(tmp_path / "in", 0, records(50, seed=1))

    def old(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        state.update((b"\x01",))
        yield pd.DataFrame({"slot": [key[0]]})

    df = read_stream(spark, tmp_path / "in")
    grouped = df.select(F.lit(12).alias("slot")).groupBy("slot")
    first = grouped.applyInPandasWithState(
        old, "slot int", "block binary", "update", GroupStateTimeout.NoTimeout
    )
    assert run(first, "update", tmp_path / "checkpoint")
    write_file(tmp_path / "in", 1, records(50, seed=2))
    now = aggregate(df, "k", {"var": aggs.variance("v")}, strategy="cascade", workers=2)
    with pytest.raises(Exception, match="STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE") as caught:
        run(now, "update", tmp_path / "checkpoint")
    assert "blocks: format 2, 64 slots" in str(caught.value)


def test_the_format_of_state_is_as_it_was() -> None:
    """Who changes it makes the state of every running query useless."""
    assert FORMAT == "format 2, 64 slots"
    parts = json.loads(layout_of())
    assert list(parts) == ["blocks", "state key", "state windows", "state 1", "state 2"]
    assert parts["state 2"] == "e = Extent(v): struct<low: int64, high: int64>"
