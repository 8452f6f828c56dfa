"""Replays of logs whose answer is known."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from command_line import refused, run
from diagnosis.log_events import START, executors, job, ran, task, task_start
from skewless.diagnosis.costs import makespan
from skewless.diagnosis.replay import Replay, what_if
from skewless.diagnosis.stages import summarise
from skewless.diagnosis.stragglers import find_stragglers

#: A job of one stage: a task of 8 s and seven of 1 s on two slots, 0.5 s of the driver before.
SKEWED = [
    *executors(2),
    *job(0, [0], 0.0, 9.0),
    *ran(0, [(0.5, 8.0, 800), *((0.5 + second, 1.0, 100) for second in range(7))], 0.2, 8.7),
]


def replayed(*events: dict[str, Any]) -> Replay:
    begins = [one for one in events if one["Event"].endswith(("JobStart", "ExecutorAdded"))]
    others = [one for one in events if one not in begins]
    return Replay(summarise([*begins, *others]))


def test_a_stage_takes_its_waves_and_the_driver_its_time() -> None:
    replay = replayed(*SKEWED)
    assert (replay.slots, replay.measured) == (2, 9.0)
    # 0.5 s until the first task, 0.2 s after the last one, 0.3 s to the end of the job.
    assert replay.run(2).seconds == pytest.approx(9.0)
    assert replay.run(1).seconds == pytest.approx(0.5 + 15.0 + 0.5)
    assert replay.run(64).seconds == pytest.approx(0.5 + 8.0 + 0.5)
    even = replay.run(8, balanced=[(0, 0)])
    assert even.seconds == pytest.approx(0.5 + 15 / 8 + 0.5)
    assert even.stages[0, 0].begin == pytest.approx(0.2)
    assert even.stages[0, 0].end == pytest.approx(0.5 + 15 / 8 + 0.2)


def test_a_stage_waits_for_its_parents_and_for_slots() -> None:
    """Two stages of two tasks share two slots; the third one reads from both."""
    events = [
        *executors(2),
        *job(0, [0, 1, 2], 0.0, 6.5),
        *ran(0, [(0.0, 1.0), (0.0, 1.0)], 0.0, 1.0),
        *ran(1, [(1.0, 2.0), (1.0, 2.0)], 0.0, 3.0),
        *ran(2, [(3.5, 3.0)], 3.5, 6.5, parents=[0, 1]),
    ]
    replay = replayed(*events)
    assert replay.run(2).seconds == pytest.approx(6.5)
    assert replay.run(4).seconds == pytest.approx(2.0 + 0.5 + 3.0)
    assert replay.run(1).seconds == pytest.approx(2.0 + 4.0 + 0.5 + 3.0)


def one_by_one(first: float, n: int) -> list[tuple[float, float]]:
    """Return tasks of a second each on one slot, which has each 2 ms after the one before."""
    return [(first + 1.002 * number, 1.0) for number in range(n)]


def test_waiting_for_a_slot_is_not_the_drivers_time() -> None:
    """Even if a slot is free for the moment in which a stage is submitted."""
    together = [  # both sides of a join, before the first task is launched
        *executors(1),
        *job(0, [0, 1, 2], 0.0, 203.0),
        *ran(0, one_by_one(0.010, 100), 0.0, 100.3),
        *ran(1, one_by_one(100.4, 100), 0.006, 200.7),
        *ran(2, [(200.8, 2.0)], 200.8, 203.0, parents=[0, 1]),
    ]
    assert replayed(*together).run(32).seconds == pytest.approx(2 + 200 / 32, abs=1.5)
    between = [  # while one of two slots is between two tasks
        *executors(2),
        *job(0, [0], 0.0, 100.9),
        *ran(0, [*one_by_one(0.010, 100), *one_by_one(0.510, 100)], 0.0, 100.8),
        *job(1, [1], 10.020, 151.2),
        *ran(1, [*one_by_one(100.9, 50), *one_by_one(100.9, 50)], 10.029, 151.1),
    ]
    assert replayed(*between).run(32).seconds == pytest.approx(10.029 + 100 / 32, abs=1.5)


def test_jobs_follow_each_other_and_keep_the_drivers_time_between() -> None:
    """Jobs 0 and 1 run together, as two sides of a join do; job 2 begins 1 s after both."""
    events = [
        *executors(4),
        *job(0, [0], 0.0, 2.0),
        *ran(0, [(0.0, 2.0)], 0.0, 2.0),
        *job(1, [1], 0.0, 4.0),
        *ran(1, [(0.0, 1.0), *((float(at), 1.0) for at in range(4))], 0.0, 4.0),
        *job(2, [2], 5.0, 7.0),
        *ran(2, [(5.0, 2.0)], 5.0, 7.0),
    ]
    replay = replayed(*events)
    assert replay.run(8).seconds == pytest.approx(2.0 + 1.0 + 2.0)
    # Now the other job is the later one.
    assert replay.run(1).seconds == pytest.approx(7.0 + 1.0 + 2.0)


def test_streams_wait_for_their_own_jobs_only() -> None:
    """Each batch of a waits 1 s; b is slow on one slot, and does not hold a up on two."""
    a = [one for n in range(3) for one in job(n, [n], 3.0 * n, 3.0 * n + 2.0, "a")]
    work = [one for n in range(3) for one in ran(n, [(3.0 * n, 2.0)], 3.0 * n, 3.0 * n + 2.0)]
    b = [*job(7, [7], 0.0, 4.0, "b"), *ran(7, [(0.0, 2.0), (2.0, 2.0)], 0.0, 4.0)]
    replay = replayed(*executors(2), *a, *b, *work)
    assert replay.run(2).seconds == pytest.approx(8.0)
    assert replay.run(2).stages[2, 0].begin == pytest.approx(6.0)
    assert replay.run(3).stages[7, 0].end == pytest.approx(2.0)
    # FIFO on one slot: job 0, the first task of job 7, job 1 as soon as it may …
    assert replay.run(1).seconds == pytest.approx(10.0)


def test_a_job_waits_for_all_jobs_that_a_stream_did_not_wait_for() -> None:
    """The stream's second job ran in a gap of job 0; the last job began after both."""
    events = [
        *executors(10),
        *(*job(0, [0, 1], 0.0, 45.0), *ran(0, [(0.0, 4.0)] * 10, 0.0, 4.0)),
        *ran(1, [(44.0, 1.0)], 44.0, 45.0, parents=[0]),
        *(*job(2, [2], 10.0, 11.0, "s"), *ran(2, [(10.0, 1.0)], 10.0, 11.0)),
        *(*job(3, [3], 46.0, 47.0, "s"), *ran(3, [(46.0, 1.0)], 46.0, 47.0)),
        *(*job(4, [4], 48.0, 49.0), *ran(4, [(48.0, 1.0)], 48.0, 49.0)),
    ]
    # On one slot, stage 0 takes 40 s. The stream is done at 77 s, and job 0 at 81 s.
    assert replayed(*events).run(1).seconds == pytest.approx(81.0 + 1.0 + 1.0)


def test_jobs_share_a_stage() -> None:
    """Job 1 begins while a stage of job 0 runs, and reads from it, too."""
    twice = [(float(at), 1.0) for at in range(100)] * 2
    begun, *shared = ran(0, twice, 0.0, 100.0)
    (one, one_ends), (other, other_ends) = job(0, [0, 1], 0.0, 101.0), job(1, [0, 2], 1.0, 103.0)
    application = summarise(
        [
            *(*executors(2), one, begun, other, *shared),
            *ran(1, [(100.0, 1.0)], 100.0, 101.0, parents=[0]),
            *ran(2, [(101.0, 2.0)], 100.0, 103.0, parents=[0]),
            *(one_ends, other_ends),
        ]
    )
    assert {stage.number: stage.begun_by for stage in application.stages} == {0: 0, 1: 0, 2: 1}
    replay = Replay(application)
    assert replay.run(2).seconds == pytest.approx(102.0)  # both stages at once
    assert replay.run(20).seconds == pytest.approx(10.0 + 2.0)


def test_a_stage_that_reads_for_another_job_waits_for_its_own_job() -> None:
    (one, one_ends), (other, other_ends) = job(0, [0], 0.0, 2.0), job(1, [0, 1], 5.0, 6.0)
    events = [
        *(*executors(1), one, *ran(0, [(0.0, 2.0)], 0.0, 2.0), one_ends),
        *(other, *ran(1, [(5.0, 1.0)], 5.0, 6.0, parents=[0]), other_ends),
    ]
    assert Replay(summarise(events)).run(1).seconds == pytest.approx(6.0)


def test_events_that_spark_lost_do_not_make_a_stage_longer() -> None:
    ten = ran(0, [(float(at), 1.0) for at in range(10)], 0.0, 10.0)
    rest = [*job(1, [1], 10.0, 110.0), *ran(1, [(10.0, 100.0)], 10.0, 110.0)]
    no_end_of_stage = [*executors(1), *job(0, [0], 0.0, 10.0), *ten[:-1], *rest]
    assert replayed(*no_end_of_stage).run(1).seconds == pytest.approx(110.0)
    begun = task_start(0, 10, 5000, number=999)
    application = summarise([*executors(1), *job(0, [0], 0.0, 10.0), begun, *ten, *rest])
    assert application.unfinished == ()
    assert Replay(application).run(1).seconds == pytest.approx(110.0)


def test_a_partition_takes_from_its_first_task_on_if_a_copy_was_faster() -> None:
    slow = task(0, 3, 60.0, launched=0, number=78, reason="TaskKilled")
    other = task(0, 3, 20.0, launched=40_000, number=79, reason="TaskKilled")
    copy = task(0, 3, 10.0, launched=50_000, number=77)
    *others, ends = ran(0, [(0.0, 10.0)] * 3, 0.0, 60.0)
    about = [*executors(4), *job(0, [0], 0.0, 60.0), *others, copy]
    assert replayed(*about, slow, other, ends).run(4).seconds == pytest.approx(60.0)
    # What was killed long before is no copy.
    before = task(0, 3, 1.0, launched=0, number=78, reason="TaskKilled")
    assert replayed(*about, before, ends).run(1).seconds == pytest.approx(40.0)


def test_launches_before_their_stage_are_no_error() -> None:
    """A clock may be stepped back, and a log may have no times."""
    events = ran(0, [(1.0, 2.0), (1.0, 2.0)], 1.001, 3.0)
    assert replayed(*executors(2), *job(0, [0], 1.0, 3.0), *events).run(2).seconds > 1.9
    for event in events:
        event.get("Task Info", {}).pop("Launch Time", None)
    assert replayed(*executors(2), *job(0, [0], 1.0, 3.0), *events).run(2).seconds > 0


def test_many_streams_are_read_in_time_that_follows_their_number() -> None:
    events = list(executors(1))
    for number in range(3_000):
        events += job(number, [number], 2.0 * number, 2.0 * number + 1, f"stream {number}")
    replay = Replay(summarise(events))
    assert sum(len(step.starts) for step in replay._steps) < 10_000
    assert replay.run(1).seconds == pytest.approx(replay.measured)


def test_a_log_that_contradicts_itself_is_no_circle() -> None:
    """Stage 0 is counted to job 1, which began after job 0 had ended, and job 0 reads from it."""
    (one, one_ends), (other, other_ends) = job(0, [0, 1], 0.0, 3.0), job(1, [0], 4.0, 5.0)
    read = ran(1, [(1.0, 1.0)], 1.0, 2.0, parents=[0])
    events = [*executors(1), one, *read, one_ends, other, *ran(0, [(0.0, 1.0)], 0.0, 1.0)]
    assert Replay(summarise([*events, other_ends])).run(1).seconds > 3.0


def test_a_log_without_metrics_has_stragglers() -> None:
    events = ran(0, [(0.0, 1.0), (1.0, 1.0), (2.0, 8.0)], 0.0, 10.0)
    for event in events:
        event.pop("Task Metrics", None)
    [found] = find_stragglers(summarise(events))
    assert (found.median_seconds, found.slowest_seconds) == (1.0, 8.0)


def test_what_failed_cost_time_too_and_attempts_follow_each_other() -> None:
    events = [
        *executors(1),
        *job(0, [0, 1], 0.0, 7.0),
        *ran(0, [(0.0, 2.0)], 0.0, 2.0),
        *ran(1, [(2.0, 1.0)], 2.0, 3.0, parents=[0], reason="FetchFailed"),
        *ran(0, [(3.0, 2.0)], 3.0, 5.0, attempt=1),
        *ran(1, [(5.0, 2.0)], 5.0, 7.0, parents=[0], attempt=1),
    ]
    replay = replayed(*events)
    assert replay.run(1).seconds == pytest.approx(replay.measured)
    # The first stage runs again when the second one has failed: its other task takes 3 s there.
    others = [
        *executors(2),
        *job(0, [0, 1], 0.0, 9.0),
        *ran(0, [(0.0, 2.0)], 0.0, 2.0),
        *ran(1, [(2.0, 3.0), (2.0, 3.0)], 2.0, 5.0, parents=[0], reason="FetchFailed"),
        *ran(0, [(5.0, 2.0)], 5.0, 7.0, attempt=1),
        *ran(1, [(7.0, 2.0)], 7.0, 9.0, parents=[0], attempt=1),
    ]
    assert replayed(*others).run(2).seconds == pytest.approx(9.0)
    events = [
        *executors(2),
        *job(0, [0], 0.0, 6.0),
        *(one for one in ran(0, [(0.0, 3.0), (3.0, 3.0)], 0.0, 6.0)),
        task(0, 2, 3.0, launched=0, reason="ExceptionFailure"),
        task(0, 2, 3.0, launched=3000),
    ]
    assert replayed(*events).run(2).seconds == pytest.approx(6.0)
    assert replayed(*events).run(1).seconds == pytest.approx(12.0)


def test_a_chain_of_many_jobs_is_the_sum_of_its_makespans() -> None:
    rng = random.Random(7)
    events, now, lengths, gaps = [], 0.0, [], []
    for number in range(300):
        lengths.append([rng.randint(1, 4000) / 1e3 for _ in range(rng.randint(1, 9))])
        slots, launches = [now] * 3, []
        for seconds in lengths[-1]:
            slots.sort()
            launches.append((slots[0], seconds))
            slots[0] += seconds
        events += [*ran(number, launches, now, max(slots)), *job(number, [number], now, max(slots))]
        gaps.append(rng.randint(0, 500) / 1e3)
        now = max(slots) + gaps[-1]
    replay = replayed(*executors(2, 1), *events)
    assert replay.slots == 3
    assert replay.run(3).seconds == pytest.approx(replay.measured)
    for n_slots in (1, 2, 5, 32):
        expected = sum(makespan(each, n_slots) for each in lengths) + sum(gaps[:-1])
        assert replay.run(n_slots).seconds == pytest.approx(expected)


def test_slots_are_those_of_the_executors_or_the_most_tasks_at_once() -> None:
    cpus = {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": {"spark.task.cpus": "2"}}
    assert replayed(*executors(5, 4), cpus, *SKEWED[1:]).slots == 4
    gone = {"Event": "SparkListenerExecutorRemoved", "Executor ID": "0"}
    assert summarise([*executors(4), gone, *executors(3, 2)]).slots == 5
    assert replayed(*SKEWED[1:]).slots == 2
    # The last files of a rolled log do not tell of the other executors.
    many = [*executors(4), *job(0, [0], 0.0, 10.0), *ran(0, [(0.0, 10.0)] * 64, 0.0, 10.0)]
    assert replayed(*many).slots == 64
    noted_later = [(0.0, 1.01), (1.0, 1.01), (2.0, 1.01)]
    one = [*executors(1), *job(0, [0], 0.0, 3.0), *ran(0, noted_later, 0.0, 3.01)]
    assert replayed(*one).slots == 1
    short = [(0.01 * number, 0.08) for number in range(80)]  # eight at a time
    assert replayed(*job(0, [0], 0.0, 0.9), *ran(0, short, 0.0, 0.9)).slots == 8
    assert Replay(summarise([])).run(4) == (0.0, {})


def test_a_log_without_jobs_is_replayed_by_its_stages() -> None:
    one, other = ran(0, [(0.0, 2.0)], 0.0, 2.0), ran(1, [(3.0, 2.0)], 3.0, 5.0)
    assert replayed(*executors(2), *one, *other).run(2).seconds == pytest.approx(5.0)


def test_stages_that_wait_for_each_other_end_all_the_same() -> None:
    """No log of Spark has this."""
    both = [*ran(0, [(0.0, 0.0)], 0.0, 0.0, [1]), *ran(1, [(0.0, 0.0)], 0.0, 0.0, [0])]
    replay = replayed(*executors(1), *job(0, [0, 1], 0.0, 1.0), *both)
    assert replay.run(1).seconds == pytest.approx(1.0)


def test_only_stages_with_a_straggler_that_balance_helps_are_balanced() -> None:
    application = summarise(SKEWED)
    own, asked = what_if(application, find_stragglers(application), 8)
    assert (own.slots, own.measured_seconds) == (2, 9.0)
    assert own.error == pytest.approx(0.0)
    assert (asked.slots, asked.measured_seconds, asked.error) == (8, None, None)
    assert asked.seconds == pytest.approx(9.0)
    assert asked.balanced_seconds == pytest.approx(1.0 + 15 / 8)
    assert asked.straggler_seconds == pytest.approx(8.0 - 15 / 8)
    [stage] = asked.stages
    assert stage.straggler_seconds == pytest.approx(8.0 - 15 / 8)
    [only] = what_if(application, find_stragglers(application), 2)
    assert only == own
    [even] = what_if(application, [], None)
    assert even.balanced_seconds == even.seconds


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "log"
    events = [*START[:2], *SKEWED, {"Event": "SparkListenerApplicationEnd", "Timestamp": 9500}]
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return str(path)


def test_the_command_says_what_other_slots_and_even_tasks_would_give(log: str) -> None:
    told = run("diagnose", "log", log, "--slots", "8")
    assert told.exit_code == 0, told.output
    own = r"on the 2 slots of the log: 9 s, measured 9 s, an error of [+-]0\.0%\."
    assert re.search(own, told.stdout)
    assert "8 slots: 9 s; without stragglers 2.88 s, so they cost 6.12 s." in told.stdout
    assert re.search(r"0\.0 +8 +8.5 s +8.5 s +2.38 s +6.12 s +stage 0", told.stdout)
    assert "Replayed" not in run("diagnose", "log", log).stdout


def test_json_has_an_object_for_the_slots_of_the_log_and_one_for_the_others(log: str) -> None:
    lines = run("diagnose", "log", log, "--executors", "2", "--cores", "4", "--json").stdout
    found = [json.loads(line) for line in lines.splitlines()]
    own, asked = (one for one in found if one["kind"] == "what-if")
    assert (own["slots"], own["measured_seconds"]) == (2, 9.0)
    assert own["seconds"] == pytest.approx(9.0)
    assert asked["slots"] == 8
    assert "measured_seconds" not in asked
    assert asked["balanced_seconds"] == pytest.approx(2.875)
    assert asked["stages"][0]["logged_seconds"] == 8.5
    assert asked["stages"][0]["straggler_seconds"] == pytest.approx(8.0 - 15 / 8)


def test_a_task_takes_as_many_cores_as_in_the_log(log: str, tmp_path: Path) -> None:
    settings = {"spark.task.cpus": "2"}
    told = {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": settings}
    path = tmp_path / "two-cores"
    path.write_text(json.dumps(told) + "\n" + Path(log).read_text())
    options = ("diagnose", "log", str(path), "--executors", "4", "--cores")
    lines = run(*options, "5", "--json").stdout.splitlines()
    assert json.loads(lines[-1])["slots"] == 8
    assert "--cores must be at least 2, the log's spark.task.cpus" in refused(*options, "1")


def test_the_page_has_a_timeline_for_each_replay(log: str, tmp_path: Path) -> None:
    pytest.importorskip("bokeh", reason="bokeh is not installed")
    page = tmp_path / "new" / "page.html"
    told = run("diagnose", "log", log, "--slots", "8", "--page", str(page))
    assert told.exit_code == 0, told.output
    text = page.read_text(encoding="utf-8")
    for expected in (
        "2 slots: 9.0 s",
        "8 slots: 9.0 s; without stragglers 2.9 s",
        "clicks, replayed",
    ):
        assert expected in text
    assert page.stat().st_mode & 0o777 == 0o600
    assert not re.search(r"<(script|link)[^>]+(src|href)=[\"']https?:", text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--slots", "0"], "--slots must be"),
        (["--slots", "-4"], "--slots must be"),
        (["--slots", "many"], "--slots takes a whole number"),
        (["--executors", "2"], "--executors and --cores go together"),
        (["--cores", "2", "--slots", "2"], "--executors and --cores go together"),
        (["--executors", "2", "--cores", "2", "--slots", "4"], "or give --slots alone"),
        (["--executors", "0", "--cores", "2"], "--executors must be"),
        (["--executors", "9999999", "--cores", "9999"], "--executors times --cores must be"),
    ],
)
def test_slots_that_cannot_be_are_refused_in_one_line(options: list[str], message: str) -> None:
    assert message in refused("diagnose", "log", "missing", *options)


def test_a_stage_that_did_not_end_is_replayed_to_the_end_of_the_log() -> None:
    begun = [task_start(0, 0, 0, number=1), task_start(0, 1, 5000, number=2)]
    events = [*job(0, [0], 0.0, 0.0)[:1], ran(0, [], 0.0, 0.0)[0], *begun]
    replay = Replay(summarise([*executors(1), *events]))
    assert replay.measured == 5.0
    assert replay.run(1).seconds == pytest.approx(5.0)
