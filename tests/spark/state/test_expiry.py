"""States end by the watermark: by `expires`, by the ttl, on whatever worker they are by then."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

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
    """Return what `Sessions` gives, by plain Python: expiry first, then what is not late."""
    processor = Sessions()
    states: dict[str, Any] = {}
    watermark: datetime | None = None
    latest: datetime | None = None
    found = []
    for table in batches:
        rows = []
        due = [key for key, s in states.items() if watermark and s["expires"] <= watermark]
        for key in due:
            some, new = processor.expire_key({"k": key}, states.pop(key), watermark)
            rows += [(key, row["what"], row["n"], row["at"]) for row in some]
            if new:
                states[key] = new
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


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("strategy", ["hash", "random"])
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
