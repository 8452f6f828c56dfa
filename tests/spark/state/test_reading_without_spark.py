"""What `read_state` shows: columns of any names, and weights that follow the schema."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from skewless.spark import KeyProcessor
from skewless.spark.state.reading import StateReader, WantedKeys, owners_of
from skewless.spark.state.versions import bases
from skewless.spark.state.versions.state_tables import StateLayout, layout_of
from skewless.spark.state.versions.version_files import read
from skewless.strategies import Mixed
from spark.state.chains import SCHEMA, random_moves, records
from spark.state.counting import of_keys
from spark.state.without_spark import SEED, Query


def columns(keys: list[str], fields: list[str]) -> list[str]:
    """Build the names of the columns of these keys and fields."""
    key, state = (pa.schema([(name, pa.int64()) for name in names]) for names in (keys, fields))
    reader = StateReader(None, None, StateLayout(key, state))  # type: ignore[arg-type]
    names: list[str] = reader.schema.names
    return names


@pytest.mark.parametrize(
    ("keys", "fields", "wanted"),
    [
        (["k"], ["n"], ["k", "worker", "version", "bytes", "n"]),
        (["worker"], ["n"], ["key_worker", "worker", "version", "bytes", "n"]),
        (
            ["Version", "BYTES"],
            ["Worker", "bytes"],
            [
                "key_Version",
                "key_BYTES",
                "worker",
                "version",
                "bytes",
                "state_Worker",
                "state_bytes",
            ],
        ),
        (["k"], ["K"], ["k", "worker", "version", "bytes", "state_K"]),
        (
            ["worker", "key_worker"],
            ["key_worker", "n"],
            ["key_key_worker", "key_worker", "worker", "version", "bytes", "state_key_worker", "n"],
        ),
        (
            ["n"],
            ["n", "state_n"],
            ["n", "worker", "version", "bytes", "state_state_n", "state_n"],
        ),
    ],
)
def test_no_two_columns_have_one_name(
    keys: list[str], fields: list[str], wanted: list[str]
) -> None:
    found = columns(keys, fields)
    assert found == wanted
    assert len({name.lower() for name in found}) == len(found)


def test_rows_of_a_key_with_the_name_of_a_column_of_ours(tmp_path: Path) -> None:
    schema = pa.schema([("bytes", pa.string()), ("v", pa.int64())])
    table = pa.table({"bytes": ["a", "b", "a"], "v": [1, 2, 3]}, schema=schema)
    query = Query(tmp_path, Counts(), schema, key=["bytes"])
    query.step(0, table)
    shown = {row["key_bytes"]: row for row in rows(query, 0)}
    assert {key: row["n"] for key, row in shown.items()} == {"a": 2, "b": 1}
    assert all(row["bytes"] >= 9 for row in shown.values())


class Counts(KeyProcessor):
    state_schema = "n bigint"
    result_schema = "n bigint"

    def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
        if state and state["n"] > 40:
            return [], None
        return [], {"n": len(records) + (state["n"] if state else 0)}


class More(Counts):
    state_schema = "n bigint, a bigint, b double, c string"


def rows(query: Query, batch: int, wanted: WantedKeys | None = None) -> list[dict[str, Any]]:
    base = bases.complete(query.ledger, batch)
    assert base is not None
    layout = query.tasks.work.layout
    reader = StateReader(query.ledger, base, layout, wanted)
    chosen = range(base.workers)
    if wanted is not None:
        chosen = owners_of(query.ledger, base, wanted.hashes, SEED)
    workers = pa.RecordBatch.from_arrays([pa.array(chosen, pa.int64())], ["id"])
    return [row for one in reader.rows(iter([workers])) for row in one.to_pylist()]


@dataclass(frozen=True)
class Unknown(Mixed):
    """A strategy of a user: its name says nothing to a reader."""

    name: ClassVar[str] = "nobody's"


@pytest.mark.parametrize("strategy", ["hash", "random", "unknown", "one hash"])
def test_keys_are_looked_up_where_the_plan_has_them(tmp_path: Path, strategy: str) -> None:
    """The rows are those of a filtered scan, even if all keys have the same hash."""
    strategies: dict[str, Any] = {"hash": "hash", "unknown": Unknown()}
    collide = strategy == "one hash"
    query = Query(
        tmp_path,
        Counts(),
        SCHEMA,
        strategy=strategies.get(strategy, random_moves()),
        workers=3,
        hashes=(lambda table: np.full(table.num_rows, 7, np.uint64)) if collide else None,
    )
    for batch in range(5):
        query.step(batch, records(80 if batch < 4 else 0, batch))
        scan = {row["k"]: row for row in rows(query, batch)}
        for keys in ([], ["no such key"], [None], ["hot", "hot", "1", None, "x"], [*scan, "y"]):
            columns = query.sent(of_keys(keys))
            hashes = columns.column("hash").to_numpy().view(np.uint64)
            order = np.argsort(hashes, kind="stable")
            texts = columns.column("k").combine_chunks().take(pa.array(order))
            found = rows(query, batch, WantedKeys(hashes[order], [texts]))
            wanted = [scan[key] for key in set(keys) & scan.keys()]
            assert sorted(map(repr, found)) == sorted(map(repr, wanted)), (batch, keys)
            if len(keys) == 1:
                base = bases.complete(query.ledger, batch)
                assert base is not None
                n_read = len(owners_of(query.ledger, base, hashes, SEED))
                assert n_read == (3 if strategy == "unknown" else 1)


@pytest.mark.parametrize("strategy", ["hash", "random"])
def test_weights_stay_right_when_a_field_is_added(tmp_path: Path, strategy: str) -> None:
    """What a worker says it holds is what its rows weigh, after each micro-batch."""
    chosen = random_moves() if strategy == "random" else strategy
    for batch in range(12):
        processor = Counts() if batch < 4 else More()
        query = Query(
            tmp_path, processor, SCHEMA, strategy=chosen, workers=3, run=f"run-{batch // 2}"
        )
        query.step(batch, records(300 if batch == 0 else 25, batch))
        shown = rows(query, batch)
        base = bases.complete(query.ledger, batch)
        assert base is not None
        for worker in range(3):
            about = read(query.ledger, base.version(worker).file).about
            mine = [row["bytes"] for row in shown if row["worker"] == worker]
            assert (about["held"], about["bytes"]) == (len(mine), sum(mine)), (batch, worker)
    top = read(query.ledger, base.version(0).file)
    assert layout_of(top.table.schema).state.names == ["n", "a", "b", "c"]
