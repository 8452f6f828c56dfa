"""Test support: a processor with lists that grow, its twin with plain lists, and an oracle."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from skewless.spark import Append, KeyProcessor
from spark.state.chains import in_order


class Gathering(KeyProcessor):
    """Gathers values; what it does with a list depends on the last value of a key."""

    state_schema = "n bigint, items array<struct<v:bigint,text:string>>, odd array<bigint>"
    result_schema = "k string, n bigint, held bigint, items array<bigint>, odd array<bigint>"

    def __init__(self, *, grows: bool = True) -> None:
        self.growing = ["odd", "items"] if grows else []

    def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
        values = [record["v"] for record in records]
        last, n = values[-1], (state["n"] if state else 0) + len(values)
        items, odd = (self.held(state, name) for name in ("items", "odd"))
        row = {"n": n, "held": len(items)}
        if last % 5 == 0:
            row |= {"items": [item["v"] for item in items], "odd": [*odd]}
        if last % 7 == 0:
            return [row], None
        keeps = {1: 0, 2: 3}.get(last % 7)
        new = [] if last % 7 == 3 else values
        whole = [{"v": value, "text": f"text of {value}"} for value in new]
        state = {"n": n, "items": self.grown(items, whole, keeps)}
        return [row], state | {"odd": self.grown(odd, [v for v in values if v % 2], None)}

    def held(self, state: Any, name: str) -> Any:
        return state[name] if state and state[name] is not None else []

    def grown(self, held: Any, new: list[Any], keeps: int | None) -> Any:
        """Return a field of the next state."""
        if self.growing:
            return Append(new, keeps=keeps) if new or keeps is not None else None
        return [*held[len(held) - min(len(held), len(held) if keeps is None else keeps) :], *new]


class Ending(Gathering):
    """The same with ends: by `expires`, by timers and by a ttl; some states are kept then."""

    state_schema = Gathering.state_schema + ", expires timestamp, at array<timestamp>"
    timers, ttl = "at", "9 minutes"

    def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
        rows, after = super().update_key(key, records, state, watermark)
        if after is None:
            return rows, after
        time = max(record["ts"] for record in records)
        at = [*(state["at"] if state else []), time + timedelta(minutes=2)]
        return rows, after | {"expires": time + timedelta(minutes=3), "at": at}

    def expire_key(self, key: Any, state: Any, watermark: Any) -> Any:
        items = self.held(state, "items")
        rows = [{"n": -1, "held": len(items), "items": [item["v"] for item in items]}]
        if len(items) % 2:
            return rows, None
        added = self.grown(items, [{"v": -1000, "text": "kept"}], 2)
        later = state["expires"] + timedelta(minutes=1)
        return rows, {**state, "items": added, "expires": later}

    def timer_key(self, key: Any, state: Any, time: Any, watermark: Any) -> Any:
        odd = self.held(state, "odd")
        added = self.grown(odd, [len(odd)], None)
        return [{"n": -2, "held": len(odd), "odd": [*odd]}], {**state, "odd": added}


def gathered(tables: Sequence[pa.Table]) -> tuple[list[list[Any]], dict[Any, Any]]:
    """Return the sorted results of `Gathering` for each table, and the states, by plain Python."""
    states: dict[Any, dict[str, Any]] = {}
    batches = []
    for table in tables:
        by_key: dict[Any, list[int]] = {}
        for record in table.to_pylist():
            by_key.setdefault(record["k"], []).append(record["v"])
        rows = []
        for key, values in by_key.items():
            one, last = states.setdefault(key, {"n": 0, "items": [], "odd": []}), values[-1]
            one["n"] += len(values)
            is_read = last % 5 == 0
            lists = [list(one[name]) if is_read else None for name in ("items", "odd")]
            rows.append((key, one["n"], len(one["items"]), *lists))
            if last % 7 == 0:
                del states[key]
                continue
            if last % 7 in (1, 2):
                del one["items"][: max(0, len(one["items"]) - 3 * (last % 7 - 1))]
            one["items"] += [] if last % 7 == 3 else values
            one["odd"] += [value for value in values if value % 2]
        batches.append(in_order(rows))
    return batches, states
