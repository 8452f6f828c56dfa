"""States whose fields become wider, get fields inside, or get other names at a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from skewless.spark import KeyProcessor
from skewless.spark.ledger import LedgerMismatch
from skewless.spark.state.schemas import shape_of
from spark.state.chains import random_moves
from spark.state.without_spark import Query

SCHEMA = pa.schema({"k": pa.string(), "v": pa.int64()})
#: A program of before: a state of all kinds of fields that can change.
OLD = "n int, x float, s struct<a: smallint, t: string>, l array<struct<a: int>>"
NEW = """clicks bigint, more string, x double, s struct<b: int, a: int, t: string, z: array<int>>,
 l array<struct<a: bigint, c: double>>"""


def processor(schema: str, names: dict[str, str] | None = None) -> Any:
    """Return a processor that shows the state of each key, and then counts in all its fields."""

    class Shown(KeyProcessor):
        state_schema = schema
        result_schema = "k string, text string"
        renamed = names or {}

        def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
            name = "clicks" if "clicks" in schema else "n"
            n = len(records) + (state[name] if state else 0)
            if n % 7 == 0:
                return [], None
            inner = {"a": n, "t": key["k"]}
            new = {name: n, "x": n / 4, "s": inner, "l": [{"a": n}, None]}
            return [{"text": repr(state)}], {one: new.get(one) for one in names_of(schema)}

    return Shown()


def names_of(schema: str) -> list[str]:
    names: list[str] = shape_of(plain(schema)).state_arrow.names
    return names


def plain(schema: str) -> Any:
    class Plain(KeyProcessor):
        state_schema = schema
        result_schema = "n int"

        def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
            return [], None

    return Plain()


def records(batch: int) -> pa.Table:
    keys = [None if i % 11 == 3 else f"key {i * (batch + 1) % 23}" for i in range(40)]
    return pa.table({"k": keys, "v": [0] * 40}, schema=SCHEMA)


def told(key: Any, n: int | None, wide: bool) -> str:
    """Return the text of a state that the old program wrote, as this one sees it."""
    if n is None:
        return "None"
    inner: dict[str, Any] = {"a": n, "t": key}
    row: dict[str, Any] = {"a": n}
    if wide:
        inner, row = {"b": None, "a": n, "t": key, "z": None}, {"a": n, "c": None}
        state = {"clicks": n, "more": None, "x": n / 4, "s": inner, "l": [row, None]}
        return repr(state)
    return repr({"n": n, "x": n / 4, "s": inner, "l": [row, None]})


@pytest.mark.parametrize("last_workers", [3, 1, 5])
def test_states_of_an_older_program_are_read_as_they_were_written(
    tmp_path: Path, last_workers: int
) -> None:
    counts: dict[Any, int] = {}
    for batch in range(8):
        wide = batch >= 4
        one = processor(NEW, {"n": "clicks", "never": "x"}) if wide else processor(OLD)
        # Keys move in every micro-batch, and the restart may change the number of workers.
        query = Query(
            tmp_path,
            one,
            SCHEMA,
            strategy=random_moves(),
            workers=last_workers if wide else 3,
            run=f"run-{batch // 2}",
        )
        # No record at all right after the change: the states are written anew all the same.
        table = records(batch) if batch != 4 else SCHEMA.empty_table()
        wanted = []
        keys = table.column("k").to_pylist()
        for key in set(keys):
            n = counts.get(key, 0) + keys.count(key)
            if n % 7:
                wanted.append((repr(key), told(key, counts.get(key), wide)))
                counts[key] = n
            else:
                counts.pop(key, None)
        rows = query.step(batch, table).to_pylist()
        assert sorted((repr(row["k"]), row["text"]) for row in rows) == sorted(wanted), batch


@pytest.mark.parametrize(
    ("before", "after", "names", "message"),
    [
        ("n bigint", "n int", {}, r"in which n is bigint, not int"),
        ("n double", "n float", {}, r"in which n is double, not float"),
        ("n int", "n double", {}, r"in which n is int, not double: numbers can become wider"),
        ("n int", "n string", {}, r"in which n is int, not string"),
        ("n int, s struct<a: int, b: int>", "n int, s struct<a: int>", {}, r"s is struct<a:int,b"),
        ("n int, s struct<a: int, b: int>", "n int, s struct<b: int, a: int>", {}, r"s is struct"),
        ("n int, s struct<a: int>", "n int, s struct<a: string>", {}, r"s is struct<a:int>"),
        ("n int, m map<string, int>", "n int, m map<string, bigint>", {}, r"m is map<string,int>"),
        ("n int, s decimal(9,2)", "n int, s decimal(12,2)", {}, r"s is decimal\(9,2\)"),
        ("n int", "clicks int", {}, r"with the field n int, which state_schema lacks"),
        ("n int", "clicks string", {"n": "clicks"}, r"in which clicks is int, not string"),
        ("n int, a int, b int", "n int, b int", {"a": "b"}, r"the fields n, .*, two of which"),
        ("n int, b int, a int", "n int, b int", {"a": "b"}, r"the fields n, .*, two of which"),
    ],
)
def test_everything_else_is_refused(
    tmp_path: Path, before: str, after: str, names: dict[str, str], message: str
) -> None:
    Query(tmp_path, plain(before), SCHEMA).step(0, records(0))
    changed = plain(after)
    changed.renamed = names
    with pytest.raises(LedgerMismatch, match=message):
        Query(tmp_path, changed, SCHEMA, run="later").step(1, records(1))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"n": "clicks"}, r"Plain: renamed: 'n' must be a former name and 'clicks' a field of"),
        ({"m": "x"}, r"Plain: renamed: 'm' must be a former name and 'x' a field of state_schema"),
        ({"a": "n", 3: "n"}, r"Plain: renamed must be texts by name, such as {'n': 'clicks'}, not"),
        (["n"], r"Plain: renamed must be texts by name, such as {'n': 'clicks'}, not \['n'\]"),
    ],
)
def test_names_that_are_not_there_are_refused(names: Any, message: str) -> None:
    one = plain("n int, clicks int")
    one.renamed = names
    with pytest.raises(ValueError, match=message):
        shape_of(one)
