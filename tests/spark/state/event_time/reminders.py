"""Test support: a processor with several timers per key, and what it returns by plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spark.state.chains import in_order
from spark.state.operators.stepping import SECOND, Record, with_watermarks

#: Seconds after a record at which its timers fire, by its value modulo 3.
AFTER = ((5, 31), (), (12, 5, 5))


def reminders() -> Any:
    """Return an object of a nested class, which workers need not import."""
    from datetime import timedelta

    from skewless.spark import KeyProcessor

    after = AFTER

    class Reminders(KeyProcessor):
        """Sets timers for each record; every third timer that fires sets another one."""

        state_schema = "n bigint, fired bigint, at array<timestamp>"
        result_schema = "k string, time timestamp, n bigint, left bigint"
        timers = "at"

        def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
            state = state or {"n": 0, "fired": 0, "at": []}
            at = list(state["at"])
            for record in records:
                if record["ts"] is not None:
                    at += [record["ts"] + timedelta(seconds=s) for s in after[record["v"] % 3]]
            return [], {**state, "n": state["n"] + len(records), "at": at}

        def timer_key(self, key: Any, state: Any, time: Any, watermark: Any) -> Any:
            fired, at = state["fired"] + 1, list(state["at"])
            if fired % 3 == 0:
                at.append(time + timedelta(seconds=1))
            row = {"time": time, "n": state["n"], "left": len(at)}
            return [row], (None if fired == 8 else {**state, "fired": fired, "at": at})

    return Reminders()


def reminded(batches: Sequence[Sequence[Record]], delay: Any) -> list[list[tuple[Any, ...]]]:
    """Return (key, time, records, timers left) for each timer that fires."""
    states: dict[Any, list[Any]] = {}  # records, timers that fired, times
    found = []
    for watermark, batch in with_watermarks(batches, delay, lambda record: record[2]):
        rows = []
        for key in list(states):
            while key in states and min(states[key][2], default=watermark + 1) <= watermark:
                n, fired, at = states[key]
                time = min(at)
                at = [one for one in at if one != time]
                fired += 1
                at += [time + SECOND] if fired % 3 == 0 else []
                rows.append((key, time, n, len(at)))
                states[key] = [n, fired, at]
                if fired == 8:
                    del states[key]
        for key, value, time in batch:
            if time is not None and time <= watermark:
                continue
            state = states.setdefault(key, [0, 0, []])
            state[0] += 1
            state[2] += [] if time is None else [time + s * SECOND for s in AFTER[value % 3]]
        found.append(in_order(rows))
    return found
