"""Event logs are read in every form that Spark writes, and refused in one line."""

import gzip
import json
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest

from command_line import refused, run
from diagnosis.log_events import START, stage_end, task, task_start
from skewless.diagnosis import event_log, stages
from skewless.diagnosis.event_log import LogError, log_files, read_events
from skewless.diagnosis.stages import summarise

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


def test_a_compacted_log_is_refused(tmp_path):
    (tmp_path / "events_7_app.compact").write_text(LINES)
    (tmp_path / "events_8_app").write_text(LINES)
    for place in (tmp_path, tmp_path / "events_7_app.compact"):
        with pytest.raises(LogError, match="is compacted: Spark has left out jobs that ended"):
            log_files(place)


def test_what_spark_is_still_compacting_is_left_out(tmp_path):
    for name in ("events_1_app", "events_1_app.compact.inprogress", "events_2_app"):
        (tmp_path / name).write_text(LINES)
    assert [file.name for file in log_files(tmp_path)] == ["events_1_app", "events_2_app"]


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**53])
@pytest.mark.parametrize("field", ["Stage ID", "Launch Time", "Finish Time"])
def test_a_number_that_no_log_has_is_refused_in_one_line(tmp_path, number, field):
    event = task(0, 0, 1.0, 5)
    (event if field in event else event["Task Info"])[field] = number
    (tmp_path / "log").write_text(LINES + json.dumps(event) + "\n")
    assert f"{number} is not a number that Spark writes" in refused(
        "diagnose", "log", str(tmp_path / "log")
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing", None, "there is no file or folder"),
        ("text", b"no json\nat all\n", "line 1 of .* is not an event"),
        ("other", b'{"a": 1}\n', "line 1 of .* is not an event"),
        ("deep", b"[" * 100_000 + b"\n", "line 1 of .* is not an event"),
        ("digits", b'{"Event": ' + b"9" * 5000 + b"}\n", "line 1 of .* is not an event"),
        ("empty", b"", "has no Spark events"),
        ("unfinished", b"hello world", "has no Spark events"),
        ("binary", b"\xff\xfe\x00\n" * 50, "line 1 of .* is not an event of Spark"),
        ("broken.gz", b"\x1f\x8bnonsense", "cannot be read"),
        ("log.lz4", b"LZ4Block", "ends in the middle of a block"),
        ("log.snappy", b"", "has no Spark events"),
    ],
)
def test_what_is_no_log_is_refused_in_one_line(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(LogError, match=message) as error:
        list(read_events(tmp_path / name))
    assert "\n" not in str(error.value)


def test_a_folder_of_applications_names_them(tmp_path):
    (tmp_path / "eventlog_v2_a").mkdir()
    (tmp_path / "eventlog_v2_b").mkdir()
    with pytest.raises(LogError, match="name one of eventlog_v2_a, eventlog_v2_b"):
        list(read_events(tmp_path))
    (tmp_path / "eventlog_v2_b").rmdir()
    with pytest.raises(LogError, match="is a folder without logs of Spark"):
        list(read_events(tmp_path))
    with pytest.raises(LogError, match="is a folder without logs of Spark"):
        list(read_events(tmp_path / "eventlog_v2_a"))


def test_what_is_neither_a_file_nor_a_folder_is_refused():
    assert "is neither a file nor a folder" in refused("diagnose", "log", "/dev/null")


def test_a_folder_with_the_log_of_one_application_is_that_log(tmp_path):
    event = {"Event": "SparkListenerApplicationEnd", "Timestamp": 1}
    (tmp_path / "local-1").write_text(json.dumps(event) + "\n")
    (tmp_path / ".local-1.crc").write_bytes(b"crc")
    assert list(read_events(tmp_path)) == [event]
    (tmp_path / "eventlog_v2_local-2").mkdir()  # rolled, beside a single file
    with pytest.raises(LogError, match="name one of eventlog_v2_local-2, local-1"):
        list(read_events(tmp_path))


@pytest.mark.parametrize("opening", ['{"Event": "', "["])
def test_a_small_file_that_holds_one_endless_line_is_refused_before_it_is_read(tmp_path, opening):
    packed = tmp_path / "log.zstd"
    with pa.CompressedOutputStream(str(packed), "zstd") as out:
        out.write(opening.encode())
        for _ in range(300):
            out.write(b"7," * (1 << 19))
    assert packed.stat().st_size < 1 << 20
    tracemalloc.start()
    with pytest.raises(LogError, match=r"line 1 of .* has 8388608 characters or more"):
        list(read_events(packed))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 150e6  # the file holds 300 MB


def test_a_line_that_is_just_short_enough_takes_a_bounded_amount(tmp_path):
    packed = tmp_path / "log.gz"
    line = '{"Event": "x", "a": [' + ",".join(["[]"] * ((event_log._LONGEST_LINE - 40) // 3)) + "]}"
    assert len(line) < event_log._LONGEST_LINE
    with pa.CompressedOutputStream(str(packed), "gzip") as out:
        out.write(line.encode() + b"\n")
    tracemalloc.start()
    assert [event["Event"] for event in read_events(packed)] == ["x"]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 300e6


MANY = [
    lambda number: task(0, number, 1.0, number=number),
    lambda number: task_start(0, number, 0, number=number),
    lambda number: stage_end(number),
    lambda number: {"Event": "SparkListenerJobStart", "Stage IDs": list(range(number))},
    lambda number: {"Event": "SparkListenerSQLExecutionStart", "executionId": number},
    lambda number: {
        "Event": "SparkListenerSQLExecutionStart",
        "sparkPlanInfo": {"children": [{"nodeName": f"{n} of {number}"} for n in range(60)]},
    },
]


@pytest.mark.parametrize("event", MANY)
def test_more_entries_than_memory_is_meant_for_are_refused(tmp_path, monkeypatch, event):
    monkeypatch.setattr(stages, "_MOST_KEPT", 100)
    (tmp_path / "log").write_text("".join(json.dumps(event(n)) + "\n" for n in range(102)))
    said = refused("diagnose", "log", str(tmp_path / "log"))
    assert "more than 100 tasks, stages, jobs, queries and operators" in said


def test_the_page_states_the_bounds():
    page = (Path(__file__).parents[2] / "docs/diagnosis.md").read_text(encoding="utf-8")
    assert f"a line of {event_log._LONGEST_LINE:,} characters" in page
    assert f"than {stages._MOST_KEPT:,} tasks" in page


def test_a_task_counts_once_and_long_names_are_cut(monkeypatch):
    monkeypatch.setattr(stages, "_MOST_KEPT", 54)
    begun = [task_start(0, n, 0, number=n) for n in range(50)]
    ended = [task(0, n, 1.0, number=n, executor="x" * 10**6) for n in range(50)]
    told = summarise([*START[:3], *begun, *ended, stage_end(0, "y" * 10**6)])
    [stage] = told.stages
    assert stage.tasks.seconds.size == 50
    assert max(map(len, (*stage.operators, *stage.tasks.executors))) < 1000


def test_names_that_look_like_markup_or_control_the_screen_are_shown_as_text(tmp_path):
    events = [
        {"Event": "SparkListenerApplicationStart", "App Name": "\x1b[2J\nNo skew [/bold] \ud800"},
        START[0],
        *START[2:],
        *(task(0, number, 1.0, number=number) for number in range(4)),
        stage_end(0, "[/bold]Op"),
    ]
    (tmp_path / "log").write_text("".join(json.dumps(event) + "\n" for event in events))
    said = run("diagnose", "log", str(tmp_path / "log"))
    assert said.exit_code == 0, said.output
    assert "\x1b" not in said.stdout
    assert "?[2J No skew [/bold] ?" in said.stdout


def test_a_log_may_be_cut_inside_a_character(tmp_path):
    begun = {"Event": "SparkListenerApplicationStart", "App Name": "Zählung"}
    content = (json.dumps(begun, ensure_ascii=False) + "\n").encode() * 2
    at = content.rindex("ä".encode()) + 1
    (tmp_path / "log").write_bytes(content[:at])
    assert [event["App Name"] for event in read_events(tmp_path / "log")] == ["Zählung"]
