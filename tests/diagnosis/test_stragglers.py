"""Event logs: read in every form that Spark writes, refused in one line, and understood."""

import gzip
import json

import pyarrow as pa
import pytest

from skewless.diagnosis.event_log import LogError, read_events
from skewless.diagnosis.stages import summarise
from skewless.diagnosis.stragglers import find_stragglers


def task(
    stage,
    partition,
    seconds,
    records=0,
    *,
    executor="1",
    shuffle=True,
    reason="Success",
    launched=0,
):
    read = {"Total Records Read": records, "Local Bytes Read": records * 10}
    given = {"Records Read": records, "Bytes Read": records * 10}
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Stage Attempt ID": 0,
        "Task End Reason": {"Reason": reason},
        "Task Info": {
            "Index": partition,
            "Executor ID": executor,
            "Launch Time": launched,
            "Finish Time": launched + int(seconds * 1000),
        },
        "Task Metrics": {
            "Executor Run Time": int(seconds * 1000),
            "Shuffle Read Metrics": read if shuffle else {},
            "Input Metrics": {} if shuffle else given,
        },
    }


def stage_end(stage, *operators):
    scopes = [
        {"Scope": json.dumps({"id": "1", "name": o}, separators=(",", ":"))} for o in operators
    ]
    info = {"Stage ID": stage, "Stage Attempt ID": 0, "Stage Name": f"stage {stage}"}
    info |= {"RDD Info": scopes, "Submission Time": 1000, "Completion Time": 9000}
    return {"Event": "SparkListenerStageCompleted", "Stage Info": info}


START = [
    {"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"},
    {"Event": "SparkListenerApplicationStart", "App Name": "clicks"},
    {
        "Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart",
        "executionId": 3,
        "description": "count at\n Clicks",
    },
    {
        "Event": "SparkListenerJobStart",
        "Stage IDs": [0, 1],
        "Properties": {"spark.sql.execution.id": "3"},
    },
]


def found(*events):
    return find_stragglers(summarise([*START, *events]))


def test_a_hot_key_is_told_from_even_tasks():
    even = [task(0, i, 2.0 + i / 100, 1000) for i in range(8)]
    skewed = [task(1, i, 9.0 if i == 5 else 1.0, 9000 if i == 5 else 1000) for i in range(8)]
    (one,) = found(*even, stage_end(0, "Exchange"), *skewed, stage_end(1, "FlatMapGroupsInPandas"))
    assert (one.stage, one.slowest_partition, one.cause) == (1, 5, "records")
    assert one.share_of_records == pytest.approx(9 / 16)
    assert one.saved_seconds == pytest.approx(9 - 2)
    assert "Aggregator" in one.remedy
    assert one.job == "count at Clicks"
    assert json.dumps(one.as_dict())


@pytest.mark.parametrize(
    ("operator", "word"),
    [
        ("SortMergeJoin", "skewJoin"),
        ("MapInArrow", "skewless.spark.route"),
        ("FlatMapGroupsInPandasWithState", "skewless.spark.process"),
        ("TransformWithStateInPySpark", "skewless.spark.process"),
        ("Window", "window function"),
        ("SomethingNew", "hot_keys"),
    ],
)
def test_the_remedy_depends_on_what_the_stage_does(operator, word):
    tasks = [task(0, i, 9.0 if i == 0 else 1.0, 9000 if i == 0 else 1000) for i in range(4)]
    (one,) = found(*tasks, stage_end(0, "Exchange", operator))
    assert word in one.remedy


def test_the_query_tells_where_generated_code_hides_the_operators():
    plan = {"nodeName": "WholeStageCodegen (3)", "children": [{"nodeName": "SortMergeJoin"}]}
    START[2]["sparkPlanInfo"] = plan
    tasks = [task(0, i, 9.0 if i == 0 else 1.0, 9000 if i == 0 else 1000) for i in range(4)]
    (one,) = found(*tasks, stage_end(0, "WholeStageCodegen (3)", "Exchange"))
    assert "skewJoin" in one.remedy
    del START[2]["sparkPlanInfo"]


def test_odd_fields_of_a_log_count_as_missing():
    odd = [
        {"Event": "SparkListenerJobStart", "Stage IDs": None, "Properties": 3},
        {"Event": "SparkListenerTaskEnd", "Task Info": [], "Task Metrics": "x", "Stage ID": {}},
        {"Event": "SparkListenerStageCompleted", "Stage Info": 7},
        stage_end(0) | {"Stage Info": {"Stage ID": 0, "RDD Info": [3]}},
    ]
    assert summarise([*odd, task(0, 0, 1.0, 5), *odd]).stages[0].tasks.records.tolist() == [5]


def test_uneven_input_is_no_hot_key():
    sizes = [9000, 1000, 1000, 1000]
    tasks = [task(0, i, n / 1000, n, shuffle=False) for i, n in enumerate(sizes)]
    (one,) = found(*tasks, stage_end(0, "Scan parquet"))
    assert one.cause == "input"
    assert "repartition" in one.remedy


def test_a_slow_machine_is_no_hot_key():
    tasks = [task(0, i, 6.0 if i % 4 == 3 else 1.0, 1000, executor=str(i % 4)) for i in range(16)]
    (one,) = found(*tasks, stage_end(0, "MapInArrow"))
    assert one.cause == "executor"
    assert "executor 3" in one.remedy


def test_the_first_wave_is_slow_and_no_straggler():
    first = [task(0, i, 3.0, 1000) for i in range(2)]
    later = [task(0, i, 0.4, 1000, launched=3000 + 400 * i) for i in range(2, 8)]
    assert found(*first, *later, stage_end(0, "MapInArrow")) == []
    hot = [task(0, 8, 2.5, 9000, launched=3000)]
    (one,) = found(*first, *later, *hot, stage_end(0, "MapInArrow"))
    assert (one.slowest_partition, one.cause) == (8, "records")


def test_tasks_that_never_ended_and_logs_without_an_end_are_told():
    start = {
        "Event": "SparkListenerTaskStart",
        "Stage ID": 4,
        "Task Info": {"Task ID": 77, "Index": 5, "Launch Time": 1000},
    }
    later = task(3, 0, 1.0, 5, launched=9000)
    told = summarise([*START, start, later])
    assert not told.complete
    assert [(t.stage, t.partition, t.seconds) for t in told.unfinished] == [(4, 5, 9.0)]
    assert summarise([*START, {"Event": "SparkListenerApplicationEnd"}]).complete


def test_dear_records_are_told_from_many():
    tasks = [task(0, i, 6.0 if i == 3 else 1.0, 1000) for i in range(4)]
    (one,) = found(*tasks, stage_end(0, "Other"))
    assert one.cause == "cost"
    assert "weight=" in one.remedy


def test_what_is_no_problem_is_not_named():
    short = [task(0, i, 0.4 if i == 0 else 0.01, 10) for i in range(4)]
    alone = [task(1, 0, 50.0, 1000)]
    failed = [
        task(2, 0, 90.0, 10, reason="ExceptionFailure"),
        task(2, 0, 1.0, 10),
        task(2, 1, 1.0, 10),
    ]
    assert found(*short, stage_end(0), *alone, stage_end(1), *failed, stage_end(2)) == []
    assert summarise(START).stages == ()


def test_a_stage_without_an_end_is_left_out():
    assert summarise([*START, task(0, 0, 1.0, 5)]).stages == ()


EVENTS = [*START, task(0, 0, 1.0, 5), stage_end(0, "Exchange")]
LINES = "".join(json.dumps(event) + "\n" for event in EVENTS)


def test_logs_are_read_plain_compressed_rolled_and_unfinished(tmp_path):
    (tmp_path / "plain").write_text(LINES)
    (tmp_path / "running.inprogress").write_text(LINES + '{"Event": "Spark')
    (tmp_path / "a.gz").write_bytes(gzip.compress(LINES.encode()))
    with pa.CompressedOutputStream(str(tmp_path / "b.zstd"), "zstd") as out:
        out.write(LINES.encode())
    for name in ("plain", "running.inprogress", "a.gz", "b.zstd"):
        assert list(read_events(tmp_path / name)) == EVENTS
    rolled = tmp_path / "eventlog_v2_app"
    rolled.mkdir()
    (rolled / "appstatus_app").write_text("")
    cut = LINES.index("\n", len(LINES) // 2) + 1
    (rolled / "events_10_app").write_text(LINES[cut:])
    (rolled / "events_9_app").write_text(LINES[:cut])
    assert list(read_events(rolled)) == EVENTS


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing", None, "there is no file or folder"),
        ("text", b"no json\nat all\n", "line 1 of .* is no event"),
        ("other", b'{"a": 1}\n', "line 1 of .* is no event"),
        ("deep", b"[" * 100_000 + b"\n", "line 1 of .* is no event"),
        ("empty", b"", "has no events"),
        ("unfinished", b"hello world", "has no events"),
        ("binary", b"\xff\xfe\x00\n" * 50, "cannot be read"),
        ("broken.gz", b"\x1f\x8bnonsense", "cannot be read"),
        ("log.lz4", b"LZ4Block", "compressed by lz4"),
        ("log.snappy", b"", "compressed by snappy"),
    ],
)
def test_what_is_no_log_is_refused_in_one_line(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(LogError, match=message) as refused:
        list(read_events(tmp_path / name))
    assert "\n" not in str(refused.value)


def test_a_folder_of_applications_names_them(tmp_path):
    (tmp_path / "eventlog_v2_a").mkdir()
    (tmp_path / "eventlog_v2_b").mkdir()
    with pytest.raises(LogError, match="name one of eventlog_v2_a, eventlog_v2_b"):
        list(read_events(tmp_path))
    (tmp_path / "eventlog_v2_b").rmdir()
    with pytest.raises(LogError, match="without files like events_1"):
        list(read_events(tmp_path))
    with pytest.raises(LogError, match="without files like events_1"):
        list(read_events(tmp_path / "eventlog_v2_a"))
