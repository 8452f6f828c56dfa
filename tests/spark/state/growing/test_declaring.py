"""How fields that grow are declared and returned, and what may change at a restart."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from skewless.spark import Append, KeyProcessor
from skewless.spark.ledger import LedgerMismatch
from skewless.spark.state.schemas import shape_of
from spark.state.chains import SCHEMA
from spark.state.counting import of_keys
from spark.state.growing.test_costs import TEXTS, Texts, texts
from spark.state.without_spark import Query


class Values(KeyProcessor):
    """Appends what `added` is, and returns how many elements there were."""

    state_schema = "values array<int>, due array<timestamp>, n int"
    result_schema = "k string, n bigint"
    growing: Any = ("values",)
    added: Any = Append([1, None])

    def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
        n = len(state["values"]) if state else 0
        return [{"n": n}], {"values": self.added, "n": n}


def with_(**attributes: Any) -> Any:
    return type("Values", (Values,), attributes)()


@pytest.mark.parametrize("growing", ["values", ["n"], ["values", "values"], ["no"], [3], 3, [[]]])
def test_other_fields_than_lists_are_refused(growing: Any) -> None:
    told = r"Values: growing must be a list of names .* it may have \['values', 'due'\]"
    with pytest.raises(ValueError, match=told):
        shape_of(with_(growing=growing))


def test_timers_cannot_grow() -> None:
    with pytest.raises(ValueError, match=r"not of timers, not .* it may have \['values'\]"):
        shape_of(with_(growing=["due"], timers="due"))


@pytest.mark.parametrize("added", [[1], (1,), "1", 1])
def test_what_is_not_appended_is_refused(tmp_path: Path, added: Any) -> None:
    """With a column for errors, too, the key fails and the query goes on."""
    with pytest.raises(ValueError, match=r"Values: the field 'values' grows, so .* Append"):
        Query(tmp_path / "a", with_(added=added), SCHEMA).step(0, of_keys(["a"]))
    kept = Query(tmp_path / "b", with_(added=added), SCHEMA, errors="failed")
    (row,) = kept.step(0, of_keys(["a"])).to_pylist()
    assert row["failed"]["error"] == "ValueError"


def test_a_failing_key_keeps_its_list(tmp_path: Path) -> None:
    Query(tmp_path, Values(), SCHEMA, errors="failed").step(0, of_keys(["a", "b"]))
    bad = with_(added=Append(["no number"]))
    Query(tmp_path, bad, SCHEMA, run="run-1", errors="failed").step(1, of_keys(["a"]))
    again = Query(tmp_path, Values(), SCHEMA, run="run-2", errors="failed")
    rows = again.step(2, of_keys(["a", "b"])).to_pylist()
    assert {row["k"]: row["n"] for row in rows} == {"a": 2, "b": 2}
    assert again.states().column("values").to_pylist() == [[1, None, 1, None]] * 2


def test_numbers_to_keep_are_checked(tmp_path: Path) -> None:
    for keeps in (-1, 1.5, "x", True):
        with pytest.raises(ValueError, match="keeps must be"):
            Append([1], keeps=keeps)  # type: ignore[arg-type]
    for keeps in ({"texts": [-1]}, {"texts": [1, 2]}, {"texts": [0.5]}, {"n": [1]}, [1]):

        class Wrong(Texts):
            def update(self, keyed: Any) -> Any:
                return super().update(keyed)._replace(keeps=keeps)  # noqa: B023

        with pytest.raises(ValueError, match="Wrong: keeps"):
            Query(tmp_path / "a", Wrong(), TEXTS).step(0, texts(["a"], ["x"]))


def test_what_was_got_appends_nothing(tmp_path: Path) -> None:
    class Same(Values):
        def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
            rows, new = super().update_key(key, records, state, watermark)
            return rows, state or new

    one = Query(tmp_path, Same(), SCHEMA)
    for batch in range(3):
        found = one.step(batch, of_keys(["a"]))
    assert found.column("n").to_pylist() == [2]


def test_the_list_of_another_field_is_refused(tmp_path: Path) -> None:
    """It would have to be read and appended, and is easily taken for what the method got."""

    class Rotating(Values):
        growing = ("values", "older")
        state_schema = "values array<int>, older array<int>, n int"

        def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
            older = state["values"] if state else None
            return [], {"values": Append([1], keeps=0), "older": older}

    one = Query(tmp_path, Rotating(), SCHEMA)
    one.step(0, of_keys(["a"]))
    with pytest.raises(ValueError, match="the field 'older' grows, so"):
        one.step(1, of_keys(["a"]))


def test_a_list_cannot_begin_or_cease_to_grow(tmp_path: Path) -> None:
    for before, now in ((["values"], []), ([], ["values"])):
        folder = tmp_path / str(len(now))
        processors = [
            with_(growing=one, added=Append([1]) if one else [1]) for one in (before, now)
        ]
        Query(folder, processors[0], SCHEMA).step(0, of_keys(["a"]))
        with pytest.raises(LedgerMismatch, match=r"values is (growing )?array<int>, not"):
            Query(folder, processors[1], SCHEMA, run="run-1").step(1, of_keys(["a"]))


@pytest.mark.parametrize("workers", [2, 3])
def test_fields_that_grow_are_added_renamed_and_widened(tmp_path: Path, workers: int) -> None:
    Query(tmp_path, Values(), SCHEMA).step(0, of_keys(["a", "b"]))

    class Wider(Values):
        state_schema = "more array<string>, numbers array<bigint>, due array<timestamp>, n bigint"
        growing = ("more", "numbers")
        renamed = {"values": "numbers"}  # noqa: RUF012

        def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
            lists = [list(state[name]) for name in self.growing]
            new = {"more": Append(["x"]), "numbers": Append([1 << 40])}
            return [{"n": len(lists[0])}], new if lists[1][:2] == [1, None] else None

    one = Query(tmp_path, Wider(), SCHEMA, run="run-1", workers=workers)
    one.step(1, of_keys(["a"]))
    assert one.step(2, of_keys(["a", "b"])).column("n").to_pylist().count(1) == 1
    found = {row["k"]: (row["more"], row["numbers"]) for row in one.states().to_pylist()}
    large = 1 << 40
    assert found == {"a": (["x", "x"], [1, None, large, large]), "b": (["x"], [1, None, large])}


def test_lists_of_some_keys_are_read_in_any_order(tmp_path: Path) -> None:
    found: list[Any] = []

    class Asking(Texts):
        def update(self, keyed: Any) -> Any:
            held, names = keyed.lists["texts"], keyed.keys["k"].to_pylist()
            which = [names.index(name) for name in ("b", "a", "b")] if len(names) > 2 else []
            found.append((held.lengths.sum(), held.read(which).to_pylist()))
            return super().update(keyed)

    one = Query(tmp_path, Asking(), TEXTS, workers=1)
    one.step(0, texts(["a", "b", "b", "c"], ["1", "2", "3", "4"]))
    one.step(1, texts(["c", "b", "a"], ["5", "6", "7"]))
    assert found[1] == (4, [["2", "3"], ["1"], ["2", "3"]])
    assert isinstance(found[0][1], list)
    assert pa.table(one.states()).num_rows == 3


class Counted(KeyProcessor):
    """Counts records; the state of a key ends twice before the next records come."""

    state_schema = "n bigint, expires timestamp"
    result_schema = "k string, n bigint"

    def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
        n = (state["n"] if state else 0) + len(records)
        return [{"n": n}], {"n": n, "expires": records[-1]["ts"]}


class Noted(Counted):
    """The same with a list, which begins when a state ends, and again when a record comes."""

    state_schema = "n bigint, notes array<string>, expires timestamp"
    growing = ("notes",)

    def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
        held = len(state["notes"]) if state else 0
        _, new = super().update_key(key, records, state, watermark)
        return [{"n": held}], {**new, "notes": Append(["came"])}

    def expire_key(self, key: Any, state: Any, watermark: Any) -> Any:
        later = state["expires"] + timedelta(seconds=1)
        return [], None if state["notes"] else {
            **state,
            "notes": Append(["ended"]),
            "expires": later,
        }


@pytest.mark.parametrize("workers", [2, 3])
def test_a_field_that_grows_is_added_to_states_without_one(tmp_path: Path, workers: int) -> None:
    Query(tmp_path, Counted(), SCHEMA).step(0, of_keys(["a", "b", "c"]))
    one = Query(tmp_path, Noted(), SCHEMA, run="run-1", workers=workers)
    assert one.step(1, of_keys(["a", "d"])).column("n").to_pylist() == [0, 0]
    assert one.step(2, of_keys(["a"])).column("n").to_pylist() == [1]
    found = {row["k"]: (row["n"], row["notes"]) for row in one.states().to_pylist()}
    wanted = {"a": (3, ["came", "came"]), "b": (1, []), "c": (1, []), "d": (1, ["came"])}
    assert found == wanted


def test_an_added_list_begins_twice_in_one_micro_batch(tmp_path: Path) -> None:
    """It begins when the state ends, is forgotten with it, and begins again with a record."""
    times: Any = {"time": "ts", "delay": 10_000_000}
    Query(tmp_path, Counted(), SCHEMA, **times).step(0, of_keys(["a"]))
    one = Query(tmp_path, Noted(), SCHEMA, run="run-1", **times)
    one.step(1, of_keys(["b"], 100))
    one.step(2, of_keys(["a"], 200))
    found = {row["k"]: row["notes"] for row in one.states().to_pylist()}
    assert found == {"a": ["came"], "b": ["came"]}


def test_numbers_to_keep_may_be_of_any_width(tmp_path: Path) -> None:
    for kind in (np.uint64, np.uint8, np.int8):

        class Last(Texts):
            def update(self, keyed: Any) -> Any:
                most = np.full(len(keyed), min(np.iinfo(kind).max, 1 << 63) - 1, kind)  # noqa: B023
                few = np.ones(len(keyed), kind)  # noqa: B023
                keeps = most if "y" in keyed.records["text"].to_pylist() else few
                return super().update(keyed)._replace(keeps={"texts": keeps})

        one = Query(tmp_path / kind.__name__, Last(), TEXTS)
        for batch, text in enumerate("xxyxx"):
            found = one.step(batch, texts(["a"], [text])).column("n").to_pylist()
        assert found == [3]
        assert one.states().column("texts").to_pylist() == [["x", "x"]]


def test_a_list_equals_a_list_with_its_elements(tmp_path: Path) -> None:
    found: list[Any] = []

    class Comparing(Values):
        def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
            if state:
                held = state["values"]
                wanted = [1, None]
                same = held == wanted, wanted == held, held == state["values"], held != wanted
                found.append((*same, held == [1], held == [1, 2], held == (1, None)))
            return super().update_key(key, records, state, watermark)

    one = Query(tmp_path, Comparing(), SCHEMA)
    for batch in range(2):
        one.step(batch, of_keys(["a"]))
    assert found == [(True, True, True, False, False, False, False)]
