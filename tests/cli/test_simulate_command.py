"""`skewless simulate`: sources that learn together, failures, and messages that name options."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import refused, run

SMALL = ["--zipf", "1.2", "--keys", "1000", "--records", "2e4", "--workers", "8"]
ZIPF = ["--zipf", "1", "--records", "1e3"]


def simulated(strategy, *options):
    result = run("simulate", "--strategy", strategy, *options, "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_sources_learn_together_and_workers_leave():
    clock = ["--timing", "service=1e-3", "--timing", "merge=1e-4", "--sources", "2"]
    together = ["--sync", "interval=1000,delay=100/30,adaptive=yes"]
    leaving = ["--event", "leave@1e4:worker=3"]
    alone, fish = simulated("hash,fish", *SMALL, *clock, *together, *leaving)
    assert "syncs" not in alone
    assert fish["syncs"] > 1


def test_an_event_that_did_not_happen_is_told(tmp_path):
    path = tmp_path / "a.csv"  # its length is not known before
    path.write_text("a\n" + "x\n" * 30)
    trace = ["--trace", str(path), "--key", "a", "--workers", "2"]
    result = run("simulate", "--strategy", "hash", *trace, "--event", "leave@30:worker=1")
    assert result.exit_code == 0
    assert [line for line in result.stderr.splitlines() if line.strip()] == [
        "skewless: --event: the stream ended after 30 records, before the event at 30"
    ]


def test_a_refused_command_makes_no_folder(tmp_path):
    out = ["--page", str(tmp_path / "new" / "page.html")]
    event = ["--event", "leave@1e9:worker=1"]
    refused("simulate", "--strategy", "hash", *SMALL, *out, *event)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("strategy", "options", "message"),
    [
        ("pkg", ["--timing", "servise=1"], "--timing: unknown parameter 'servise'; did you mean"),
        (
            "pkg",
            ["--timing", "service=1e300"],
            "--timing: service must be above 0 and at most 1e+09, not 1e+300",
        ),
        (
            "hash",
            ["--workers", "4e6", "--timing", "queue=1048576"],
            "--timing: queues of 1,048,576 records for 4,000,000 workers need",
        ),
        (
            "hash",
            ["--event", "leave@1000:worker=2"],
            "--event: at must be within the stream, which has 1,000 records, not 1,000",
        ),
        ("hash", ["--event", "leave@-1:worker=2"], "--event: at must be at least 0, not -1"),
        ("hash", ["--event", "leave@1:worker=99"], "--event: worker 99 is not one of the 16"),
        ("hash", ["--event", "leave@1:value=2"], "--event needs worker=…"),
        (
            "fish",
            ["--sync", "interval=10,delay=1/2"],
            "--sync: delay must be one number or one for each of the 1 sources",
        ),
        ("fish", ["--sync", "interval=10,delai=1"], "--sync: unknown parameter 'delai'; did you"),
        ("fish", ["--sync", "interval=1,adaptive=may"], "--sync: adaptive must be true or false"),
        ("fish", ["--sync", "interval=0,delay=10"], "--sync: interval must be at least 1, not 0"),
        ("fish", ["--sync", "delay=10"], "--sync needs interval=RECORDS"),
        ("hash", ["--event", "leave@200"], "--event takes KIND@RECORD:worker=NUMBER, not 'leave"),
        (
            "hash",
            ["--event", "leave@200:3"],
            "--event takes KIND@RECORD:worker=NUMBER, not 'leave@200",
        ),
        (
            "fish",
            ["--sync", "interval=80,shortest=10"],
            "--sync: shortest goes with adaptive=yes",
        ),
        ("hash", ["--zipf", "-1"], "--zipf must be a number from 0 to 20, not -1.0"),
        ("hash", ["--keys", "0"], "--keys must be from 1 to 2^48, not 0"),
        ("hash", ["--with", "z=2"], "--with z=… cannot be combined with an option that sets it"),
    ],
)
def test_messages_name_the_option(strategy, options, message):
    command = ["simulate", "--strategy", strategy, *ZIPF, *options]
    assert message in refused(*command)
    assert run(*command).stdout == ""  # no strategy has run before


def test_messages_about_traces_name_the_option(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": ["x"], "b": ["y"]}), path)
    empty = tmp_path / "empty"
    empty.mkdir()
    prose = tmp_path / "prose.md"
    prose.write_text("a b a")
    for place, options, message in (
        (prose, [], "--trace needs --key COLUMN"),
        (prose, ["--key", "a"], "--with format must be one of csv, jsonl, parquet: that of"),
        (tmp_path / "no.parquet", ["--key", "a"], "--trace: there is no file or folder"),
        (empty, ["--key", "a"], "--trace: there are no files in"),
        (path, ["--key", "c"], "--key: '"),
        (path, ["--key", "a", "--weight", "b"], "--weight: column 'b' of"),
        (path, ["--key", "a", "--weight", "c"], "--weight: '"),
        (path, ["--key", "a", "--with", "format=xml"], "--with format must be one of"),
    ):
        line = refused("simulate", "--strategy", "hash", "--trace", str(place), *options)
        assert line.startswith(f"skewless: {message}")


def test_json_has_the_metrics_of_each_window_if_they_are_asked_for():
    (row,) = simulated("pkg", *SMALL, "--windows")
    assert len(row["window_imbalance"]) == len(row["window_replication"]) > 1
    refused = run("simulate", "--strategy", "pkg", *SMALL, "--windows")
    assert "--windows: give --json, too" in refused.output
