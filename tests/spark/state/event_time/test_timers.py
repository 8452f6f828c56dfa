"""A key may have several timers: each fires once, in order, on whatever worker the key is then."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from skewless.spark import KeyProcessor, Processor, Update, check_processor, process
from skewless.spark.state.schemas import shape_of
from spark.state.chains import BEGIN, SCHEMA, random_moves, records
from spark.state.counting import SECOND, of_keys
from spark.state.eight_tables import rows
from spark.state.event_time.reminders import reminded, reminders
from spark.state.operators.stepping import drifting, rows_of, table_of
from spark.state.without_spark import Query

DELAY = 10 * SECOND


@pytest.mark.parametrize("seed", [0, 1])
def test_timers_fire_as_in_plain_python(tmp_path: Path, seed: int) -> None:
    batches = drifting(12, seed)
    found = []
    for batch, some in enumerate(batches):
        run = batch // 4  # with restarts, and another number of workers
        one = Query(
            tmp_path,
            reminders(),
            SCHEMA,
            time="ts",
            delay=DELAY,
            strategy=random_moves(),
            workers=2 + run,
            run=f"run-{run}",
        )
        found.append(rows_of(one.step(batch, table_of(some))))
    wanted = reminded(batches, DELAY)
    assert sum(map(len, wanted)) > 50
    assert found == wanted


class Kept(KeyProcessor):
    """Has a timer, an `expires` and a ttl."""

    state_schema = "n bigint, expires timestamp, at array<timestamp>"
    result_schema = "k string, what string, n bigint"
    timers = "at"
    ttl = "20 seconds"

    def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
        ts = records[-1]["ts"]
        at = [ts + timedelta(seconds=s) for s in (2, 5, 9, 30)]
        return [], {"n": 0, "expires": ts + timedelta(seconds=5), "at": at}

    def timer_key(self, key: Any, state: Any, time: Any, watermark: Any) -> Any:
        n = state["n"] + 1
        return [{"what": f"timer {len(state['at'])}", "n": n}], {**state, "n": n}

    def expire_key(self, key: Any, state: Any, watermark: Any) -> Any:
        n = state["n"] + 1
        return [{"what": "expires", "n": n}], {**state, "n": n, "expires": None}


def test_timers_expires_and_ttl_come_in_the_order_of_their_times(tmp_path: Path) -> None:
    one = Query(tmp_path, Kept(), SCHEMA, time="ts", delay=0)
    one.step(0, of_keys(["a"], 0))
    one.step(1, of_keys(["b"], 40))
    # The ttl ends the state at 20 s, so the timer of 30 s does not fire.
    # At 5 s there are a timer and `expires`.
    timers = [("a", "timer 1", 4), ("a", "timer 2", 2), ("a", "timer 3", 1)]
    wanted = [("a", "expires", 3), *timers]
    assert rows(one.step(2, of_keys([], 41))) == wanted
    assert rows(one.states())[0][0] == "b"


def of_a(folder: Path, processor: Any, *seconds: int) -> list[list[str]]:
    """Return what comes of key a, which has a record at 0 s; b has one at each of `seconds`."""
    one = Query(folder, processor, SCHEMA, time="ts", delay=0)
    one.step(0, of_keys(["a"], 0))
    found = []
    for batch, second in enumerate(seconds, start=1):
        some = [row for row in rows(one.step(batch, of_keys(["b"], second))) if row[0] == "a"]
        found.append([what for _, what, _ in sorted(some, key=lambda row: row[2])])
    return found


class Backwards(Kept):
    """The first timer that fires sets one at an earlier time."""

    def timer_key(self, key: Any, state: Any, time: Any, watermark: Any) -> Any:
        rows, state = super().timer_key(key, state, time, watermark)
        earlier = [time - timedelta(seconds=1)] if state["n"] == 1 else []
        return rows, {**state, "at": [*state["at"], *earlier]}


def test_an_earlier_timer_does_not_let_the_ttl_come_before_expires(tmp_path: Path) -> None:
    """It would fire in the next micro-batch, and the ttl has ended the state by then."""
    at_once = of_a(tmp_path / "1", Backwards(), 40, 41, 42)
    assert at_once == [[], ["timer 3", "timer 3", "expires", "timer 2"], []]
    # The watermark is 3 s in micro-batch 2, and the earlier timer fires in micro-batch 3.
    later = of_a(tmp_path / "2", Backwards(), 3, 4, 40, 41)
    assert later == [[], ["timer 3"], ["timer 3"], ["timer 2", "expires", "timer 1"]]


class Unmoved(Kept):
    """Keeps a state although its `expires` has passed."""

    ttl: Any = None

    def expire_key(self, key: Any, state: Any, watermark: Any) -> Any:
        rows, new = super().expire_key(key, state, watermark)
        return rows, {**new, "expires": state["expires"]}


def test_timers_fire_although_a_passed_expires_is_kept(tmp_path: Path) -> None:
    """`expires` comes once in each micro-batch, and timers as the watermark passes them."""
    found = of_a(tmp_path / "1", Unmoved(), 7, 20, 40, 41)
    first, second = ["timer 3", "timer 2", "expires"], ["expires", "timer 1"]
    assert found == [[], first, second, ["expires", "timer 0"]]
    processor = Unmoved()
    processor.ttl = "20 seconds"
    assert of_a(tmp_path / "2", processor, 40, 41, 42) == [[], [*first, "timer 1"], []]


class Counted(Processor):
    """Counts its timers by column; timers that it does not look at are kept."""

    state_schema = "n bigint, at array<timestamp>"
    result_schema = "k string, time timestamp"

    def update(self, keyed: Any) -> Update:
        ends = pa.array([[BEGIN + 3 * SECOND, None, BEGIN + SECOND]] * len(keyed))
        at = ends.cast(keyed.states.type[1].type)
        n = pa.array([1] * len(keyed))
        return Update(None, pa.StructArray.from_arrays([n, at], ["n", "at"]))

    def on_timer(self, keyed: Any) -> Update:
        return Update(pa.table([keyed.keys["k"], keyed.times], ["k", "time"]), keyed.states)


class Timed(Counted):
    timers = "at"


def test_a_list_of_times_becomes_timers_at_a_restart(tmp_path: Path) -> None:
    """Without `timers`, the list is a list; the ends of states are computed anew with it."""
    before = Query(tmp_path, Counted(), SCHEMA, time="ts", delay=0)
    before.step(0, of_keys(["a", "b"], 0))
    assert before.step(1, of_keys(["c"], 2)).num_rows == 0
    after = Query(tmp_path, Timed(), SCHEMA, time="ts", delay=0, run="run-1")
    first = rows_of(after.step(2, of_keys(["d"], 3)))
    assert first == [(key, SECOND) for key in "abc"]
    late = [(key, 3 * SECOND) for key in "abcd"]
    assert rows_of(after.step(3, of_keys([], 3))) == [*late[:3], ("d", SECOND), late[3]]


class Echo(KeyProcessor):
    """Returns the time of each record five seconds later."""

    state_schema = "at array<timestamp>"
    result_schema = "k string, time timestamp"
    timers = "at"
    forgets = False

    def update_key(self, key: Any, records: Any, state: Any, watermark: Any) -> Any:
        at = state["at"] if state else []
        return [], {"at": [*at, *(record["ts"] + timedelta(seconds=5) for record in records)]}

    def timer_key(self, key: Any, state: Any, time: Any, watermark: Any) -> Any:
        left = [] if self.forgets else state["at"]
        return [{"time": time}], ({"at": left} if left else None)


def test_the_check_of_processors_knows_timers() -> None:
    check_processor(Echo(), records(60, 0), key="k", time="ts")
    wrong = Echo()
    wrong.forgets = True  # the other timers of the key
    with pytest.raises(AssertionError):
        check_processor(wrong, records(60, 0), key="k", time="ts")


def test_a_name_that_is_no_list_of_times_is_refused() -> None:
    for wrong in ("n", "nowhere", 1):
        processor = Timed()
        processor.timers = wrong  # type: ignore[assignment]
        with pytest.raises(ValueError, match=r"Timed: timers must be the name of a field .*, not"):
            shape_of(processor)


@pytest.mark.spark
def test_all_timers_of_a_batch_fire_at_its_end(spark: Any, tmp_path: Path) -> None:
    batch = [record for record in drifting(1, 5)[0] if record[2] is not None]
    df = spark.createDataFrame(table_of(batch))
    found = process(df, "k", reminders(), workers=2).toArrow()
    assert rows_of(found) == reminded([batch, [("end", 1, 10**12)], []], DELAY)[2]
    stream = spark.readStream.schema("k string, v bigint, ts timestamp").parquet(str(tmp_path))
    with pytest.raises(ValueError, match="Reminders has timers, and states end by the watermark"):
        process(stream, "k", reminders(), ledger=str(tmp_path / "ledger"))
