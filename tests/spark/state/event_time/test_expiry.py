"""States end by the watermark: by `expires`, by the ttl, on whatever worker they are by then."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lanes import slow
from skewless.spark import KeyProcessor
from spark.state.chains import BEGIN, SCHEMA, in_order, random_moves
from spark.state.without_spark import Query

GAP = timedelta(seconds=20)
DELAY = 10_000_000


class Sessions(KeyProcessor):
    """Sessions that end 20 seconds after their last record; a kept one ends 5 seconds later."""

    state_schema = "n bigint, first timestamp, expires timestamp, warned boolean"
    result_schema = "k string, what string, n bigint, at timestamp"

    def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
        state = state or {"n": 0, "first": records[0]["ts"], "expires": None}
        last = max(record["ts"] for record in records)
        ends = max(last + GAP, state["expires"] or last)
        n = state["n"] + len(records)
        return [], {"n": n, "first": state["first"], "expires": ends, "warned": False}

    def expire_key(self, key: Any, state: Any, at: Any) -> Any:
        row = {"n": state["n"], "at": at}
        if state["warned"]:
            return [{**row, "what": "ended"}], None
        later = {**state, "warned": True, "expires": state["expires"] + timedelta(seconds=5)}
        return [{**row, "what": "ending"}], later


def tables(n_batches: int, seed: int) -> list[pa.Table]:
    """Return records of which some are too late, and keys that fall silent."""
    rng = np.random.default_rng(seed)
    found = []
    for batch in range(n_batches):
        n = int(rng.integers(0, 40))
        seconds = batch * 8 + rng.integers(-30, 8, n)
        keys = [f"k{i}" for i in rng.integers(0, 12, n) + batch // 4]
        micros = (BEGIN + seconds * 1_000_000).tolist()
        found.append(pa.table({"k": keys, "v": [0] * n, "ts": micros}, schema=SCHEMA))
    return found


def expected(batches: Sequence[pa.Table]) -> list[list[tuple[Any, ...]]]:
    """Compute the results of `Sessions` by plain Python: expiry first, then what is not late."""
    processor = Sessions()
    states: dict[str, Any] = {}
    watermark: datetime | None = None
    latest: datetime | None = None
    found = []
    for table in batches:
        rows = []
        due = [key for key, s in states.items() if watermark and s["expires"] <= watermark]
        for key in due:
            state = states.pop(key)
            while state and watermark and state["expires"] <= watermark:
                some, state = processor.expire_key({"k": key}, state, watermark)
                rows += [(key, row["what"], row["n"], row["at"]) for row in some]
            if state:
                states[key] = state
        records = table.to_pylist()
        by_key: dict[str, list[Any]] = {}
        for record in records:
            if watermark is None or record["ts"] > watermark:
                by_key.setdefault(record["k"], []).append(record)
        for key, own in by_key.items():
            _, states[key] = processor.update_key({"k": key}, own, states.get(key), watermark)
        latest = max([latest] * bool(latest) + [record["ts"] for record in records], default=None)
        if latest:
            now = latest - timedelta(microseconds=DELAY)
            watermark = max(now, watermark) if watermark else now
        found.append(in_order(rows))
    return found


@pytest.mark.parametrize("seed", [0, *slow([1])])
@pytest.mark.parametrize("strategy", [*slow(["hash"]), "random"])
def test_sessions_equal_plain_python(tmp_path: Path, strategy: str, seed: int) -> None:
    chosen = random_moves() if strategy == "random" else strategy
    batches = tables(24, seed)
    query = Query(
        tmp_path, Sessions(), SCHEMA, strategy=chosen, workers=3, time="ts", delay=DELAY, kept=2
    )
    found = [query.step(batch, table).to_pylist() for batch, table in enumerate(batches)]
    assert [in_order(tuple(row.values()) for row in rows) for rows in found] == expected(batches)
    assert sum(map(len, found)) > 10  # of 12 keys in 24 batches: the stream does test expiry


class Idle(KeyProcessor):
    state_schema = "n bigint"
    result_schema = "k string, n bigint"
    ttl = "30 seconds"

    def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
        n = len(records) + (state["n"] if state else 0)
        return [{"n": n}], {"n": n}


def test_a_state_without_records_is_forgotten_after_its_ttl(tmp_path: Path) -> None:
    query = Query(tmp_path, Idle(), SCHEMA, time="ts", delay=0, workers=2)

    def step(batch: int, *records: tuple[str, int]) -> dict[str, int]:
        keys, seconds = zip(*records, strict=True)
        micros = [BEGIN + second * 1_000_000 for second in seconds]
        table = pa.table({"k": keys, "v": [0] * len(keys), "ts": micros}, schema=SCHEMA)
        return {row["k"]: row["n"] for row in query.step(batch, table).to_pylist()}

    assert step(0, ("a", 5), ("b", 0), ("b", 4)) == {"a": 1, "b": 2}
    assert step(1, ("a", 20)) == {"a": 2}
    assert step(2, ("c", 34)) == {"c": 1}  # the watermark was 20
    assert step(3, ("b", 40), ("a", 41)) == {"b": 1, "a": 3}  # it is 34, and b's end was 34
    assert step(4, ("late", 10), ("c", 42)) == {"c": 2}


class Reminds(KeyProcessor):
    """Reminds of a key 10 seconds after its last record, keeps it, and forgets it by the ttl."""

    state_schema = "n bigint, expires timestamp"
    result_schema = "k string, what string, n bigint"
    ttl = "30 seconds"

    def __init__(self, again: int | None = None) -> None:
        self.again = again

    def update_key(self, key: Any, records: Any, state: Any, at: Any) -> Any:
        n = len(records) + (state["n"] if state else 0)
        expires = records[-1]["ts"] + timedelta(seconds=10)
        return [{"what": "seen", "n": n}], {"n": n, "expires": expires}

    def expire_key(self, key: Any, state: Any, at: Any) -> Any:
        later = None if self.again is None else state["expires"] + timedelta(seconds=self.again)
        return [{"what": "idle", "n": state["n"]}], {**state, "expires": later}


def stepped(folder: Path, processor: Any, *batches: str, run: int = 0, first: int = 0) -> list[str]:
    """Return the results of micro-batches, all as texts: "a5 b7" are records of a and b.

    A record "a?" has no time.
    """
    query = Query(folder, processor, SCHEMA, time="ts", delay=0, workers=2, run=f"run-{run}")
    found = []
    for batch, text in enumerate(batches, first):
        keys = [word[0] for word in text.split()]
        seconds = [None if word[1:] == "?" else int(word[1:]) for word in text.split()]
        micros = [second if second is None else BEGIN + second * 1_000_000 for second in seconds]
        table = pa.table({"k": keys, "v": [0] * len(keys), "ts": micros}, schema=SCHEMA)
        rows = sorted(query.step(batch, table).to_pylist(), key=repr)
        found.append(" ".join(f"{row['k']}:{row.get('what', 'n')}:{row['n']}" for row in rows))
    return found


def test_the_ttl_ends_what_expiry_keeps(tmp_path: Path) -> None:
    found = stepped(tmp_path, Reminds(), "a0", "x12", "x25", "x31", "a32")
    assert found == ["a:seen:1", "x:seen:1", "a:idle:1 x:seen:2", "x:seen:3", "a:seen:1"]


@pytest.mark.parametrize(("again", "calls"), [(0, [3, 4, 5, 6]), (7, [3, 4, 5]), (12, [3, 5])])
def test_the_ttl_ends_what_expiry_renews(tmp_path: Path, again: int, calls: list[int]) -> None:
    seconds = range(8, 50, 6)
    found = stepped(tmp_path, Reminds(again), "a0", *(f"x{second}" for second in seconds), "a51")
    # The watermark is 14 in micro-batch 3, and 32 in micro-batch 6, when the ttl ends it.
    assert [number for number, text in enumerate(found) if "a:idle" in text] == calls
    assert "a:seen:1" in found[-1].split()


def test_what_comes_first_ends_a_state_however_far_the_watermark_goes(tmp_path: Path) -> None:
    """A ttl before `expires` forgets a state without a call, in one step or in many."""

    class Late(Reminds):
        ttl = "5 seconds"

    for name, steps in (("one", ["x50"]), ("many", ["x3", "x6", "x9", "x12", "x50"])):
        found = stepped(tmp_path / name, Late(), "a0", *steps, "x51")
        assert not any("a:idle" in text for text in found)


def test_one_step_of_the_watermark_does_what_many_do(tmp_path: Path) -> None:
    """Idle states are forgotten before the records that follow, also if expiry keeps them."""
    for name, steps in (("one", ["x31"]), ("many", ["x12", "x25", "x31"])):
        found = stepped(tmp_path / name, Reminds(), "a0", *steps, "a32")
        assert " ".join(found).count("a:idle:1") == 1
        assert found[-1].split()[-1] == "a:seen:1"


@pytest.mark.parametrize(("again", "n_calls"), [(7, 3), (12, 2), (30, 1)])
def test_what_is_renewed_ends_as_often_in_one_step_as_in_many(
    tmp_path: Path, again: int, n_calls: int
) -> None:
    for name, steps in (("one", ["x60"]), ("many", [f"x{second}" for second in range(6, 61, 6)])):
        found = stepped(tmp_path / name, Reminds(again), "a0", *steps, "x61")
        assert " ".join(found).count("a:idle:1") == n_calls, name


@pytest.mark.parametrize("steps", [["x31", "a?"], ["x31", "x31", "a?"]], ids=["at once", "later"])
def test_a_record_without_a_time_begins_a_state_after_the_ttl(
    tmp_path: Path, steps: list[str]
) -> None:
    found = stepped(tmp_path, Idle(), "a0", *steps, "x32", "a?")
    assert [text for text in found if "a:" in text] == ["a:n:1", "a:n:1", "a:n:2"]


class Counts(Idle):
    ttl = None


def test_another_ttl_at_a_restart_holds_for_all_states(tmp_path: Path) -> None:
    stepped(tmp_path, Counts(), "a0 b40", "c50")
    # The watermark is 50 by now, and a has been without a record for longer than the ttl.
    found = stepped(tmp_path, Idle(), "a51 b52", "c53", run=1, first=2)
    assert found == ["a:n:1 b:n:2", "c:n:2"]
    # Without a ttl, states are kept again: those that were not forgotten before.
    found = stepped(tmp_path, Counts(), "x500", "x501", "a502 b503", run=2, first=4)
    assert found[2] == "a:n:2 b:n:3"
