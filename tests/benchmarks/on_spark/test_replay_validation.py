"""The table of told and measured times, and which events of a log belong to a run."""

import pytest

pytest.importorskip("pyspark", reason="the benchmark runs on Spark")
from benchmarks.on_spark.event_logs import by_run
from benchmarks.on_spark.replay_validation import table, worst

ROWS = [
    {"work": "sleeping", "logged": 2, "slots": 2, "told": 10.1, "measured": 10.0},
    {"work": "sleeping", "logged": 2, "slots": 4, "told": 4.5, "measured": 5.0},
    {"work": "computing", "logged": 2, "slots": 2, "told": 3.0, "measured": 3.0},
]


def test_a_row_has_what_a_log_tells_and_the_error():
    lines = table(ROWS).splitlines()
    assert lines[0] == "| work | seconds | 2 slots | 4 slots |"
    assert lines[2:] == [
        "| sleeping | measured | 10.0 | 5.0 |",
        "| sleeping | told from 2 slots | 10.1 (+1%) | 4.5 (-10%) |",
        "| computing | measured | 3.0 | – |",
        "| computing | told from 2 slots | 3.0 (+0%) | – |",
    ]
    assert worst(ROWS) == ("The largest error is 10% for sleeping work, and 0% for computing work.")


def test_a_run_has_its_jobs_their_stages_and_what_belongs_to_none():
    named = {"skewless.run": "measured"}
    added = {"Event": "SparkListenerExecutorAdded", "Executor ID": "driver"}
    warm_up = [
        {"Event": "SparkListenerJobStart", "Job ID": 0, "Stage IDs": [0, 1], "Properties": {}},
        {"Event": "SparkListenerStageSubmitted", "Stage Info": {"Stage ID": 1}},
        {"Event": "SparkListenerTaskEnd", "Stage ID": 0},
        {"Event": "SparkListenerJobEnd", "Job ID": 0},
    ]
    # Stage 1 is listed again: its shuffle is read, but it ran before.
    run = [
        {"Event": "SparkListenerJobStart", "Job ID": 1, "Stage IDs": [1, 2], "Properties": named},
        {"Event": "SparkListenerTaskEnd", "Stage ID": 2},
        {"Event": "SparkListenerJobEnd", "Job ID": 1},
    ]
    assert by_run([*warm_up, added, *run]) == {"measured": [added, *run]}
