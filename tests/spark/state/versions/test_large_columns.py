"""Columns that Arrow cannot hold are refused in one line; fetched files are kept by their bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from skewless.spark import KeyProcessor, Processor
from skewless.spark.state.grouping import received
from skewless.spark.state.versions import column_room, version_files
from skewless.spark.state.versions.column_room import require_room
from skewless.spark.state.versions.held_state import row_bytes
from skewless.spark.state.versions.state_tables import same
from skewless.spark.state.versions.version_files import KeptFiles
from spark.state.chains import SCHEMA, chain, chained, in_order, records
from spark.state.without_spark import Query

LISTS = pa.list_(pa.struct([("text", pa.string())]))


@pytest.mark.parametrize(
    ("values", "kind", "column"),
    [
        (["x" * 50, "y" * 60], pa.string(), "c"),
        ([b"x" * 120], pa.binary(), "c"),
        ([{"a": 1, "b": "x" * 120}], pa.struct([("a", pa.int64()), ("b", pa.string())]), "c.b"),
        ([[{"text": "x" * 60}, {"text": "y" * 60}]], LISTS, "c.item.text"),
        ([[0] * 101], pa.list_(pa.int8()), "c"),
        ([[("a", "x" * 120)]], pa.map_(pa.string(), pa.string()), "c.item.value"),
    ],
)
def test_a_column_that_is_too_large_is_named(
    monkeypatch: pytest.MonkeyPatch, values: list[Any], kind: Any, column: str
) -> None:
    monkeypatch.setattr(column_room, "MOST", 100)
    table = pa.table({"n": [1] * len(values), "c": pa.array(values, kind)})
    with pytest.raises(RuntimeError, match=rf"these: column '{column}' would hold .* use fewer"):
        require_room([table], "these", "use fewer")
    require_room([table.slice(0, 0)] * 3, "these", "use fewer")


def test_many_numbers_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_room, "MOST", 100)
    require_room([pa.table({"n": list(range(1000))})] * 5, "these", "use fewer")


def test_records_and_states_without_room_are_refused_with_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Texts(KeyProcessor):
        state_schema = "text string"
        result_schema = "k string"

        def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
            return [], {"text": "x" * 300}

    query = Query(tmp_path, Texts(), SCHEMA, workers=1)
    table = records(100, 0)
    query.step(0, table)
    monkeypatch.setattr(column_room, "MOST", 1_000)
    with pytest.raises(RuntimeError, match=r"the states of a worker.*column 'state\.text'"):
        query.step(1, table)
    sent = query.sent(table).combine_chunks().to_batches()
    monkeypatch.setattr(column_room, "MOST", 100)
    with pytest.raises(RuntimeError, match=r"column 'k' would hold .* or smaller micro-batches"):
        received(sent, query.tasks.work.sent)


def test_results_without_room_are_refused_with_what_helps(tmp_path: Path) -> None:
    class Overflows(Processor):
        state_schema = "n bigint"
        result_schema = "k string"

        def update(self, keyed: Any) -> Any:
            raise pa.ArrowInvalid("offset overflow while concatenating arrays")

    with pytest.raises(RuntimeError, match="Overflows: a column of results or states of a worker"):
        Query(tmp_path, Overflows(), SCHEMA, workers=1).step(0, records(10, 0))


def test_fetched_files_are_kept_up_to_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's own filesystem in memory stands for S3."""
    kept: KeptFiles[Any] = KeptFiles(30_000)
    monkeypatch.setattr(version_files, "_fetched", kept)
    tables = [records(100, seed) for seed in range(8)]
    query = Query("mock:///large/ledger", chain(), SCHEMA, kept=2)  # type: ignore[arg-type]
    found = []
    for batch, table in enumerate(tables):
        rows = query.step(batch, table).to_pylist()
        found.append(in_order(tuple(row.values()) for row in rows))
        assert kept.n_bytes <= 30_000
    assert found == chained(tables)
    assert kept.n_bytes > 0


def test_maps_of_deleted_files_do_not_keep_their_blocks_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: KeptFiles[Any] = KeptFiles(1_000)
    monkeypatch.setattr(version_files, "_mapped", kept)
    monkeypatch.setattr(version_files, "_NEW_MAPS", 1)
    query = Query(tmp_path, chain(), SCHEMA, kept=2)
    for batch in range(24):
        query.step(batch, records(20, batch))
    there = len(list(tmp_path.rglob("worker-*.arrow")))
    assert 0 < kept.n_bytes <= there


def test_the_file_that_was_read_first_makes_room() -> None:
    kept: KeptFiles[str] = KeptFiles(10)
    assert [kept.get(name, lambda: ("x", 6)) for name in "ab"] == ["x", "x"]
    assert kept.n_bytes == 6
    assert kept.get("b", lambda: ("y", 6)) == "x"
    assert kept.get("a", lambda: ("y", 6)) == "y"


def test_a_file_larger_than_all_that_is_kept_is_read_each_time() -> None:
    kept: KeptFiles[str] = KeptFiles(10)
    assert kept.get("small", lambda: ("a", 4)) == "a"
    assert kept.get("large", lambda: ("b", 11)) == "b"
    assert kept.get("large", lambda: ("c", 11)) == "c"
    assert kept.get("small", lambda: ("d", 4)) == "a"
    kept.clear()
    assert kept.get("small", lambda: ("d", 4)) == "d"


def test_rows_have_the_bytes_of_their_values() -> None:
    assert row_bytes([pa.array(["abc", None]), pa.array([1, 2])]).tolist() == [15, 12]


def test_keys_are_the_same_by_their_values_and_by_their_nulls() -> None:
    assert same([pa.array(["x", None, "y"])], [pa.array(["x", None, None])]).tolist() == [
        *(True, True, False)
    ]
