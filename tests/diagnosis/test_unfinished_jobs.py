"""Logs that end too soon, and tasks that fail, do not hide a hot key."""

import json

import pytest

from command_line import run
from diagnosis.log_events import START, found, stage_end, stage_start, task, task_start
from skewless.diagnosis.stages import summarise

NO_SKEW = "skew is not what makes it slow"
END = {"Event": "SparkListenerApplicationEnd"}


def even(stage, n_tasks=4, **given):
    return [task(stage, i, 1.0, 1000, number=100 + i, **given) for i in range(n_tasks)]


def said(tmp_path, *events):
    """Run the command; return its text for people, and its objects by their kinds."""
    (tmp_path / "log").write_text("".join(json.dumps(event) + "\n" for event in events))
    people = run("diagnose", "log", str(tmp_path / "log"))
    assert people.exit_code == 0, people.output
    lines = run("diagnose", "log", str(tmp_path / "log"), "--json").stdout.splitlines()
    objects: dict[str, list] = {}
    for one in map(json.loads, lines):
        objects.setdefault(one["kind"], []).append(one)
    return people.stdout, objects


def test_even_stages_that_ended_rule_skew_out(tmp_path):
    text, objects = said(tmp_path, *START, *even(0), stage_end(0), END)
    assert NO_SKEW in text
    assert list(objects) == ["application"]
    (application,) = objects["application"]
    assert application["complete"]
    assert application["skew_ruled_out"]


def test_a_hot_task_that_still_runs_is_named(tmp_path):
    running = task_start(1, 5, 500, number=77)
    later = [*even(0, launched=60_000), stage_end(0)]
    events = [*START, stage_start(1, "MapInArrow"), running, *even(1), *later]
    text, objects = said(tmp_path, *events)
    assert NO_SKEW not in text
    assert "Stage 1: the task of partition 5 had not ended after" in text
    (one,) = objects["straggler"]
    assert (one["stage"], one["slowest_partition"], one["cause"]) == (1, 5, "unfinished")
    assert one["slowest_seconds"] == pytest.approx(60.5)
    assert one["share_of_records"] is None
    assert not one["complete"]
    assert "skewless.spark.route" in one["remedy"]
    assert [(t["stage"], t["partition"]) for t in objects["unfinished"]] == [(1, 5)]
    assert not objects["application"][0]["complete"]


def test_a_task_that_has_just_begun_is_no_straggler_and_rules_nothing_out(tmp_path):
    running = [task_start(0, 9, 950, number=77), task_start(0, 8, 950, number=78)]
    text, objects = said(tmp_path, *START, stage_start(0), *even(0), *running)
    assert "straggler" not in objects
    assert NO_SKEW not in text
    assert "skew cannot be ruled out" in text
    assert not objects["application"][0]["skew_ruled_out"]
    assert len(objects["unfinished"]) == 2


def test_many_that_run_as_long_are_not_slow():
    """One task ended soon; fifteen still run, and each takes three times as long so far."""
    running = [task_start(0, 1 + i, 0, number=1 + i) for i in range(15)]
    late = [task(1, 0, 0.1, 5, launched=2900, number=50), stage_end(1)]
    assert found(stage_start(0), *running, task(0, 0, 1.0, 1000, number=60), *late) == []


def test_tasks_just_begun_do_not_make_the_others_slow():
    running = [task_start(0, 4 + i, 900, number=1 + i) for i in range(20)]
    assert found(stage_start(0), *even(0), *running) == []


def test_a_job_without_an_end_and_without_tasks_rules_nothing_out(tmp_path):
    """A driver that is killed loses what it had not yet written: often the start of tasks."""
    job = {"Event": "SparkListenerJobStart", "Job ID": 4, "Stage IDs": [7]}
    text, objects = said(tmp_path, *START, *even(0), stage_end(0), job)
    assert NO_SKEW not in text
    assert "1 job has no end in the log" in text
    assert objects["application"][0]["open_jobs"] == 1
    done = {"Event": "SparkListenerJobEnd", "Job ID": 4}
    assert NO_SKEW in said(tmp_path, *START, *even(0), stage_end(0), job, done)[0]


def test_a_hot_task_that_fails_each_time_is_named(tmp_path):
    why = {"Reason": "ExceptionFailure", "Class Name": "java.lang.OutOfMemoryError"}
    hot = [task(0, 5, 60.0, launched=60_000 * i, number=i) for i in range(4)]
    for event in hot:
        event["Task End Reason"] = why
    aborted = stage_end(0, seconds=250, **{"Failure Reason": "Job aborted"})
    text, objects = said(tmp_path, *START, *even(0), *hot, aborted, END)
    assert NO_SKEW not in text
    assert "partition 5 never succeeded. It failed 4 times" in text
    assert "OutOfMemoryError" in text
    (one,) = objects["failed"]
    assert (one["stage"], one["partition"], one["failures"]) == (0, 5, 4)
    assert one["seconds"] == 60.0
    assert not summarise([*START, *even(0), aborted]).stages[0].complete


def test_a_partition_that_succeeds_later_has_not_failed(tmp_path):
    """In the same attempt, or in the next one of the stage."""
    lost = task(0, 3, 1.0, reason="ExecutorLostFailure")
    fetched = task(1, 2, 1.0, reason="FetchFailed")
    again = task(1, 2, 1.0, 5, attempt=1)
    ends = [stage_end(0), stage_end(1), stage_end(1, **{"Stage Attempt ID": 1})]
    text, objects = said(tmp_path, *START, lost, *even(0), fetched, again, *ends, END)
    assert NO_SKEW in text
    assert "failed" not in objects


def test_a_task_that_was_killed_with_its_job_is_named_and_a_slow_copy_is_not(tmp_path):
    """What ends after its stage still belongs to it."""
    killed = task(0, 7, 50.0, reason="TaskKilled", number=7)
    copy = task(0, 1, 3.0, reason="TaskKilled", number=8)
    given_up = stage_end(0, "MapInArrow", seconds=50, **{"Failure Reason": "cancelled"})
    text, objects = said(tmp_path, *START, *even(0), given_up, killed, copy, END)
    assert "the task of partition 7 was killed after 50" in text
    assert [(t["partition"], t["killed"]) for t in objects["unfinished"]] == [(7, True)]
    (one,) = objects["straggler"]
    assert (one["slowest_partition"], one["tasks"]) == (7, 5)


def test_tasks_that_never_ended_and_logs_without_an_end_are_told():
    start = task_start(4, 5, 1000, number=77)
    later = task(3, 0, 1.0, 5, launched=9000)
    told = summarise([*START, start, later])
    assert not told.complete
    assert [(t.stage, t.partition, t.seconds) for t in told.unfinished] == [(4, 5, 9.0)]
    assert [stage.number for stage in told.stages] == [3, 4]
    assert summarise([*START, END]).complete


def test_a_stage_without_an_end_is_judged_too():
    (stage,) = summarise([*START, stage_start(0, "MapInArrow"), *even(0)]).stages
    assert not stage.complete
    assert (stage.operators, stage.seconds) == (("MapInArrow",), 0.5)
