"""Partial results: however records are cut, merged and packed, the results are the same."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed")
from skewless import aggregations as aggs
from skewless.spark.aggregation import combining
from skewless.spark.aggregation.combining import chunks, combined
from skewless.spark.aggregation.partials import (
    BLOCK,
    PANE,
    SLOT,
    TIME,
    Packing,
    Partials,
    by_key,
    from_block,
    state_names,
    to_block,
)
from skewless.spark.slots import even_slots
from spark.streams import spread, vector_spread

SCHEMA = pa.schema(
    [(TIME, pa.timestamp("us", "UTC")), ("k", pa.string()), ("j", pa.float64()), ("v", pa.int64())]
)
READY = {"n": aggs.count(), "s": aggs.sum("v"), "m": aggs.mean("v"), "c": aggs.collect("v")}
PLAIN = Partials(pa.schema(list(SCHEMA)[1:]), ("k", "j"), READY)
PANES = Partials(SCHEMA, ("k", "j"), READY, pane=10, offset=-3)

ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-50, 50),
        st.sampled_from(["a", "ä", "", None]),
        st.sampled_from([0.0, -0.0, float("nan"), 1.5, None]),
        st.none() | st.integers(-9, 9),
    ),
    max_size=40,
)


def table_of(rows: list[Any]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [[]] * len(SCHEMA)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def cut(rows: list[Any], seed: int) -> list[list[Any]]:
    """Return the rows in pieces, in any order."""
    rng = np.random.default_rng(seed)
    pieces: list[list[Any]] = [[] for _ in range(4)]
    for row in rows:
        pieces[rng.integers(4)].append(row)
    return pieces


def same_key(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return value


def oracle(rows: list[Any], pane_of: Any) -> dict[Any, Any]:
    groups = defaultdict(list)
    for time, k, j, v in rows:
        if pane_of is None or time is not None:
            pane = None if pane_of is None else pane_of(time)
            groups[pane, k, same_key(j)].append(v)
    results = {}
    for key, values in groups.items():
        known = [v for v in values if v is not None]
        mean = sum(known) / len(known) if known else None
        results[key] = (len(values), sum(known) if known else None, mean, sorted(known))
    return results


def results_of(partials: Partials, merged: pa.Table) -> dict[Any, Any]:
    panes = merged.column(PANE).to_pylist() if partials.pane else [None] * merged.num_rows
    rows = partials.finish(merged).to_pylist()
    found = {}
    for pane, row in zip(panes, rows, strict=True):
        key = (pane, row["k"], same_key(row["j"]))
        assert key not in found
        found[key] = (row["n"], row["s"], row["m"], sorted(row["c"]))
    return found


@given(ROWS, st.integers(0, 2**32))
def test_parts_merge_to_the_whole(rows: list[Any], seed: int) -> None:
    parts = [PLAIN.update(table_of(piece).drop_columns([TIME])) for piece in cut(rows, seed)]
    merged = PLAIN.merge([PLAIN.merge(parts[:2]), PLAIN.merge(parts[2:])])
    assert merged.schema == PLAIN.table_schema
    assert results_of(PLAIN, merged) == oracle(rows, None)


@given(ROWS, st.integers(0, 2**32))
def test_panes_are_kept_apart_and_know_their_latest_time(rows: list[Any], seed: int) -> None:
    parts = [PANES.update(table_of(piece)) for piece in cut(rows, seed)]
    merged = PANES.merge(parts)
    assert results_of(PANES, merged) == oracle(rows, lambda time: (time + 3) // 10)
    latest = merged.column(TIME).cast(pa.int64()).to_pylist()
    keys = zip(*[merged.column(name).to_pylist() for name in (PANE, "k", "j")], strict=True)
    for key, time in zip(keys, latest, strict=True):
        there = [
            t
            for t, k, j, _ in rows
            if t is not None
            and ((t + 3) // 10, k, same_key(j)) == (key[0], key[1], same_key(key[2]))
        ]
        assert time == max(there)


@given(ROWS)
def test_packed_blocks_hold_every_key_once_in_its_slot(rows: list[Any]) -> None:
    table = PANES.update(table_of(rows))
    places = even_slots(8)
    packed = list(Packing(PANES, places).pack(table))
    assert len(packed) == (1 if table.num_rows else 0)
    found = []
    slot_of: dict[Any, int] = {}
    inner = by_key(PANES)
    for batch in packed:
        assert batch.schema == Packing(PANES, places).schema
        for row in batch.select([SLOT, BLOCK]).to_pylist():
            assert row[SLOT] in places
            for result in inner.finish(from_block(row[BLOCK], inner.table_schema)).to_pylist():
                key = (result["k"], same_key(result["j"]))
                assert slot_of.setdefault(key, row[SLOT]) == row[SLOT]
                found.append((*key, result["n"]))
    wanted = oracle(rows, lambda time: (time + 3) // 10)
    assert sorted(map(repr, found)) == sorted(repr((k, j, w[0])) for (_, k, j), w in wanted.items())


def test_the_time_of_a_block_is_its_latest_even_beyond_the_year_9999() -> None:
    far = 410_000_000_000_000_000
    rows = [(far, "a", 1.0, 1), (far + 2, "a", 1.0, 2), (far + 1, "b", 1.0, 3)]
    one_slot = Packing(PANES, even_slots(1))
    (batch,) = one_slot.pack(PANES.update(table_of(rows)))
    assert batch.column(TIME).cast(pa.int64()).to_pylist() == [far + 2]


def test_blocks_come_back_as_they_went() -> None:
    table = PLAIN.update(table_of([(0, "a", 1.0, 1), (0, None, None, None)]).drop_columns([TIME]))
    for part in (table, table.slice(1), table.slice(0, 0)):
        assert from_block(to_block(part), table.schema).equals(part)


def test_blocks_of_another_version_are_refused() -> None:
    block = to_block(PLAIN.table_schema.empty_table())
    with pytest.raises(ValueError, match=r"version b'\\x02'; this skewless reads b'\\x01'"):
        from_block(b"\x02" + block[1:], PLAIN.table_schema)


def test_records_come_in_chunks_under_the_names_of_the_schema() -> None:
    schema = pa.schema([("k.1", pa.string()), ("v", pa.int64())])
    batches = [
        pa.record_batch(
            {"x": pa.array(["a"] * n, pa.large_string()), "y": pa.array([1] * n, pa.int32())}
        )
        for n in (3, 0, 4, 1)
    ]
    tables = list(chunks(iter(batches), schema, 5))
    assert [table.num_rows for table in tables] == [7, 1]
    assert all(table.schema == schema for table in tables)
    assert list(chunks(iter([]), schema, 5)) == []


def test_state_columns_are_told_apart_by_result_and_number() -> None:
    assert len({*state_names("a", 3), *state_names("a_1", 3), *state_names("b", 1)}) == 7


def test_chunks_end_by_their_bytes_too() -> None:
    schema = pa.schema([("v", pa.int64())])
    batches = [pa.record_batch([pa.array(range(n))], schema=schema) for n in (4, 4, 1)]
    tables = list(chunks(iter(batches), schema, 100, 64))
    assert [table.num_rows for table in tables] == [8, 1]


@pytest.mark.parametrize("n_rows", [1, 7, 64, 10_000])
def test_how_records_are_cut_changes_no_combined_result(
    monkeypatch: pytest.MonkeyPatch, n_rows: int
) -> None:
    """Partial results wait before they are merged: few keys, many, and new ones at the end."""
    monkeypatch.setattr(combining, "_ROWS_AT_ONCE", n_rows)
    rng = np.random.default_rng(1)
    keys = np.concatenate([rng.integers(0, 9, 200), rng.integers(0, 500, 300), [1_000]])
    table = pa.table({"k": keys, "v": np.arange(keys.size)})
    ready: dict[str, Any] = {
        "n": aggs.count(),
        "sum": aggs.sum("v"),
        "list": aggs.collect("v"),
        "spread": aggs.PerKey(spread()),
        "vector": aggs.PerColumn(vector_spread()),
    }
    partials = Partials(table.schema, ("k",), ready)
    merged, n_records, seconds = combined(iter(table.to_batches(5)), partials)
    assert n_records == keys.size
    assert seconds > 0
    whole = partials.finish(partials.update(table))
    found = partials.finish(merged).sort_by("k").to_pylist()
    for row in found:
        row["list"].sort()
    assert found == whole.sort_by("k").to_pylist()


def test_an_aggregator_never_finishes_no_keys() -> None:
    class Halves(aggs.VectorAggregator):
        inputs = ("v",)
        state = "n bigint"
        result = "bigint"

        def update(self, batch: pa.RecordBatch, keys: Any, n_keys: int) -> dict[str, Any]:
            return {"n": np.bincount(keys, minlength=n_keys)}

        def merge(self, states: pa.RecordBatch, keys: Any, n_keys: int) -> dict[str, Any]:
            return {"n": np.bincount(keys, states["n"].to_numpy(), n_keys).astype(np.int64)}

        def finish(self, states: pa.RecordBatch) -> Any:
            n = states["n"].to_numpy()
            return n // min(n.max(), 2)

    schema = pa.schema([("k", pa.string()), ("v", pa.int64())])
    partials = Partials(schema, ("k",), {"half": aggs.PerColumn(Halves())})
    assert partials.finish(partials.table_schema.empty_table()).schema == partials.result_schema
