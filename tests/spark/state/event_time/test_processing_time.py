"""States that end by the time of the micro-batch, which a repeated micro-batch has again."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from skewless.spark import KeyProcessor, check_processor, process
from skewless.spark.ledger import LedgerMismatch
from skewless.spark.state import initial_states
from skewless.spark.state.schemas import shape_of
from spark.state.chains import BEGIN, DDL, SCHEMA, random_moves, records
from spark.state.counting import of_keys
from spark.state.eight_tables import rows
from spark.state.without_spark import SEED, Offsets, Query
from spark.streams import read_stream, run, write_file


def clocked(ttl: str = "60 seconds", clock: Any = "processing") -> Any:
    """Return an object of a nested class, which workers need not import."""

    class Clocked(KeyProcessor):
        """Has a timer after 5 seconds, ends after 10, and is forgotten by the ttl."""

        state_schema = "n bigint, expires timestamp, at array<timestamp>"
        result_schema = "k string, what string, n bigint"
        timers = "at"

        def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
            n = len(records) + (state["n"] if state else 0)
            times = [watermark + timedelta(seconds=s) for s in (5, 10)]
            return [{"what": "seen", "n": n}], {"n": n, "expires": times[1], "at": times[:1]}

        def timer_key(self, key: Any, state: Any, time: Any, watermark: Any) -> Any:
            return [{"what": "timer", "n": state["n"]}], state

        def expire_key(self, key: Any, state: Any, watermark: Any) -> Any:
            return [{"what": "expires", "n": state["n"]}], {**state, "expires": None}

    processor = Clocked()
    processor.ttl, processor.clock = ttl, clock
    return processor


class ClockedQuery(Query):
    """A query whose micro-batches begin at given seconds."""

    seconds: tuple[int, ...] = (0, 7, 20, 65, 66, 30)

    def plan(self, batch: int, table: pa.Table | None = None) -> Any:
        self.checkpoint[batch] = BEGIN // 1000 + 1000 * self.seconds[batch]
        return self.tasks.begin(self.ledger, batch, SEED, Offsets(self.checkpoint))


def query(folder: Path, run: int, processor: Any = None, **more: Any) -> ClockedQuery:
    strategy, chosen = random_moves(), clocked() if processor is None else processor
    return ClockedQuery(folder, chosen, SCHEMA, run=f"run-{run}", strategy=strategy, **more)


#: The keys that have a record in each micro-batch, and what comes of it.
KEYS = ("a", "b", "b", "c", "a", "a")
WANTED = [
    [("a", "seen", 1)],
    [("a", "timer", 1), ("b", "seen", 1)],
    [("a", "expires", 1), ("b", "expires", 1), ("b", "seen", 2), ("b", "timer", 1)],
    [("b", "expires", 2), ("b", "timer", 2), ("c", "seen", 1)],
    [("a", "seen", 1)],  # the ttl has ended it at 60 s
    [("a", "seen", 2)],  # the clock was set back, and time did not go back
]


@pytest.mark.parametrize("workers", [1, 3])
def test_states_end_by_the_time_of_the_micro_batch(tmp_path: Path, workers: int) -> None:
    """Every micro-batch is repeated by a new run, which begins later and gets the same time."""
    for batch, key in enumerate(KEYS):
        # The times of records have no meaning.
        table = of_keys([key], 100 * (batch % 2))
        for number in (0, 1):
            one = query(tmp_path, 2 * batch + number, workers=workers)
            assert rows(one.step(batch, table)) == WANTED[batch]


def test_the_ttl_of_initial_states_counts_from_when_they_were_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(initial_states, "time_ns", lambda: 1000 * BEGIN)
    kind, one = pa.timestamp("us", "UTC"), query(tmp_path, 0)
    ends = {"expires": pa.nulls(2, kind), "at": pa.nulls(2, pa.list_(kind))}
    assert one.begin_with(pa.table({"k": ["a", "b"], "n": [1, 2], **ends})) == []
    held = []
    for batch, key in enumerate("xbxx"):
        one.step(batch, of_keys([key]))
        held.append(sorted(one.states().column("k").to_pylist()))
    assert held == [["a", "b", "x"]] * 3 + [["b", "x"]]  # at 65 s


def test_a_restart_cannot_change_the_clock(tmp_path: Path) -> None:
    query(tmp_path, 0).step(0, of_keys(["a"]))
    other = query(tmp_path, 1, clocked(clock="event"), time="ts", delay=0)
    with pytest.raises(LedgerMismatch, match=r"with clock: processing, not with clock: nothing"):
        other.step(1, of_keys(["a"]))


def test_the_check_of_processors_lets_time_stand_still() -> None:
    check_processor(clocked(), records(40, 0), key="k", answers="batch")
    for wrong in ("wall", None, ["event"]):
        with pytest.raises(
            ValueError, match=r"Clocked: clock must be 'event' or 'processing', not"
        ):
            shape_of(clocked(clock=wrong))


@pytest.mark.spark
def test_the_clock_of_a_stream_and_of_a_batch(spark: Any, tmp_path: Path) -> None:
    for number in (0, 1):
        write_file(tmp_path / "in", number, of_keys(["a"], 5))
    found = {}
    for name, ttl in (("short", "1 millisecond"), ("long", "1 day")):
        stream, folder = read_stream(spark, tmp_path / "in", DDL), tmp_path / name
        results = process(stream, "k", clocked(ttl), workers=2, ledger=str(folder / "ledger"))
        batches = run(results, "append", folder / "checkpoint")
        found[name] = [[tuple(row) for row in batches[batch]] for batch in (0, 1)]
    assert found["short"] == [[("a", "seen", 1)], [("a", "seen", 1)]]
    assert found["long"][0] == [("a", "seen", 1)]
    assert found["long"][1][-1] == ("a", "seen", 2)  # after a timer, if 5 seconds have passed
    df = spark.createDataFrame(of_keys(["a", "a"], 5))
    ended = sorted(tuple(row) for row in process(df, "k", clocked(), workers=1).collect())
    assert ended == [("a", "expires", 2), ("a", "seen", 2), ("a", "timer", 2)]
    with pytest.raises(ValueError, match=r"Clocked has clock = 'processing', so states end by the"):
        process(df, "k", clocked(), watermark=("ts", "1 hour"))
