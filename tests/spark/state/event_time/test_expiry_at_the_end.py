"""At the end of a batch DataFrame all times have passed: timers that are set anew fire as well."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from skewless.aggregations import LawBroken
from skewless.spark import KeyProcessor, check_processor
from skewless.spark.state.process import BatchTasks
from skewless.spark.state.schemas import shape_of
from skewless.spark.state.worker_step import Work
from spark.state.chains import BEGIN, SCHEMA
from spark.state.event_time.test_expiry import Sessions
from spark.state.operators.stepping import sent_columns


def at_once(processor: Any, *records: tuple[str, int], time: str | None = "ts") -> list[Any]:
    """Run a batch DataFrame on one worker."""
    keys, seconds = zip(*records, strict=True)
    micros = [BEGIN + second * 1_000_000 for second in seconds]
    table = pa.table({"k": keys, "v": [0] * len(keys), "ts": micros}, schema=SCHEMA)
    sent = sent_columns(SCHEMA, ["k"], time)
    hashes = pa.array([ord(key[0]) for key in keys], pa.int64())
    nothing = pa.array([0] * len(keys), pa.int32())
    whole = pa.table([hashes, nothing, nothing, *table.columns], schema=sent.schema)
    tasks = BatchTasks(Work(shape_of(processor), sent))
    results = tasks.process(iter(whole.combine_chunks().to_batches()))
    return [row for batch in results for row in batch.to_pylist()]


@pytest.mark.parametrize("time", ["ts", None])
def test_a_timer_that_is_set_anew_fires_too(time: str | None) -> None:
    found = at_once(Sessions(), ("a", 0), ("b", 3), ("a", 1), time=time)
    whats = [(row["k"], row["what"], row["n"]) for row in found]
    assert whats[:2] == [("a", "ending", 2), ("b", "ending", 1)]
    assert whats[2:] == [("a", "ended", 2), ("b", "ended", 1)]


class Countdown(Sessions):
    """Key "a" has one timer, "b" has two, and so on: one after the other, and then none."""

    def expire_key(self, key: Any, state: Any, at: Any) -> Any:
        left = state["n"] - 1
        later = state["expires"] + timedelta(seconds=5) if left else None
        return [{"what": "tick", "n": left}], {**state, "n": left, "expires": later}


def test_a_state_that_stays_without_an_end_is_done() -> None:
    found = at_once(Countdown(), *[(key, i) for i, key in enumerate("abbcccdddd")])
    assert Counter(row["k"] for row in found) == {"a": 1, "b": 2, "c": 3, "d": 4}


class RenewsItself(Sessions):
    def expire_key(self, key: Any, state: Any, at: Any) -> Any:
        return [], {**state, "expires": state["expires"] + timedelta(seconds=5)}


class KeepsItself(Sessions):
    def expire_key(self, key: Any, state: Any, at: Any) -> Any:
        return [], state


@pytest.mark.parametrize("processor", [RenewsItself(), KeepsItself()])
def test_a_state_that_renews_itself_for_ever_is_refused_by_name(
    processor: KeyProcessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "skewless.spark.state.worker_step._MOST_EXPIRIES", 20
    )  # 1,000 take a minute
    message = f"{type(processor).__name__}: on_expiry was called 20 times"
    with pytest.raises(RuntimeError, match=message) as caught:
        at_once(processor, ("a", 0))
    assert "\n" not in str(caught.value)
    table = pa.table({"k": ["a"], "v": [0], "ts": [BEGIN]}, schema=SCHEMA)
    with pytest.raises(LawBroken, match=message):
        check_processor(processor, table, key="k", time="ts")


def test_the_ttl_ends_what_keeps_itself() -> None:
    processor = KeepsItself()
    processor.ttl = "1 day"
    assert at_once(processor, ("a", 0)) == []
