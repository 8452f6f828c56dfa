"""`skewless run APP`, as people and scripts use it."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import lend_session, let_java_be_found, refused, run


@pytest.fixture
def same_session(spark, monkeypatch):
    """Let commands use the session of the tests, and not end it."""
    lend_session(spark, monkeypatch)


@pytest.mark.spark
def test_run_wordcount_prints_the_top_or_writes_all(same_session, tmp_path):
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"user": ["x", "y", "x", None]}), tmp_path / "in" / "a.parquet")
    command = ["run", "wordcount", "--input", str(tmp_path / "in"), "--key", "user"]
    shown = run(*command, "--workers", "2", "--strategy", "pkg")
    assert shown.exit_code == 0, shown.output
    assert [line.split() for line in shown.stdout.splitlines()] == [
        ["user", "count"],
        ["x", "2"],
        ["null", "1"],
        ["y", "1"],
    ]
    told = run(*command, "--workers", "2", "--strategy", "pkg", "--json")
    assert told.exit_code == 0, told.output
    objects = [json.loads(line) for line in told.stdout.splitlines()]
    assert {one["user"]: one["count"] for one in objects} == {"x": 2, "y": 1, None: 1}
    out = tmp_path / "out"
    written = run(*command, "--workers", "2", "--stream", "--output", str(out), "--json")
    assert written.exit_code == 0, written.output
    assert json.loads(written.stdout) == {"output": str(out)}
    rows = pq.read_table(out).to_pylist()
    assert {row["user"]: row["count"] for row in rows} == {"x": 2, "y": 1, None: 1}


@pytest.mark.spark
@pytest.mark.parametrize("form", ["auto", "plain", "local"])
def test_run_takes_the_forms_of_aggregate_and_any_delimiter(same_session, tmp_path, form):
    (tmp_path / "a.csv").write_text("user;n\nx,1;1\ny;2\nx,1;3\n")
    command = ["run", "wordcount", "--input", str(tmp_path), "--key", "user", "--delimiter", ";"]
    for more in ([], ["--stream"]):
        told = run(*command, "--workers", "2", "--strategy", form, "--json", *more)
        assert told.exit_code == 0, told.output
        objects = [json.loads(line) for line in told.stdout.splitlines()]
        assert {one["user"]: one["count"] for one in objects} == {"x,1": 2, "y": 1}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    "app", ["wordcount", "vwap", "hashtags", "road-condition", "ddos-flows", "self-join"]
)
def test_every_application_shows_its_results(same_session, app):
    shown = run("run", app, "--generate", "3000", "--workers", "2", "--strategy", "hash")
    assert shown.exit_code == 0, shown.output
    assert len(shown.stdout.splitlines()) > 1


@pytest.mark.spark
def test_texts_are_shown_as_texts(same_session, tmp_path):
    pq.write_table(pa.table({"post": ["#a #b", "#a"]}), tmp_path / "a.parquet")
    shown = run("run", "hashtags", "--input", str(tmp_path), "--text", "post", "--workers", "2")
    assert shown.exit_code == 0, shown.output
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert lines == [["hashtag", "count"], ["a", "2"], ["b", "1"]]


@pytest.mark.slow
@pytest.mark.spark
def test_run_makes_records_for_those_who_have_none(same_session, tmp_path):
    out = tmp_path / "out"
    command = ["run", "vwap", "--generate", "1e3", "--workers", "2", "--seed", "1"]
    written = run(*command, "--output", str(out))
    assert written.exit_code == 0, written.output
    assert sum(row["trades"] for row in pq.read_table(out).to_pylist()) == 1000
    shown = run(*command, "--stream")
    assert shown.exit_code == 0, shown.output
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert lines[0] == ["symbol", "vwap", "volume", "trades"]
    assert len(lines) == 21


@pytest.mark.spark
def test_a_key_column_may_be_called_batch_in_a_stream_that_appends(same_session, tmp_path):
    (tmp_path / "in").mkdir()
    times = pa.array([0, 1, 2, 500], pa.timestamp("s", "UTC"))
    records = {"batch": ["x", "y", "x", "last"], "ts": times}
    pq.write_table(pa.table(records), tmp_path / "in" / "a.parquet")
    command = ["run", "wordcount", "--input", str(tmp_path / "in"), "--key", "batch"]
    command += ["--workers", "2", "--stream", "--time", "ts", "--window", "1 minute"]
    command += ["--watermark", "1 second"]
    shown = run(*command, "--json")
    assert shown.exit_code == 0, shown.output
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    assert {row["batch"]: row["count"] for row in rows} == {"x": 2, "y": 1}
    assert sorted(rows[0]) == ["batch", "count", "window"]
    out = tmp_path / "out"
    written = run(*command, "--output", str(out))
    assert written.exit_code == 0, written.output
    rows = pq.read_table(out).to_pylist()
    assert {row["batch"]: row["count"] for row in rows} == {"x": 2, "y": 1}


def test_run_refuses_bad_input_before_spark_starts(tmp_path, monkeypatch):
    pytest.importorskip("pyspark", reason="without pyspark that is what is said")
    let_java_be_found(monkeypatch, lambda: tmp_path)
    monkeypatch.setattr("skewless.cli.applications.run.spark_session", None)  # starting would fail
    path = tmp_path / "a.csv"
    path.write_text("user,n\nx,1\n")
    count = ["run", "wordcount", "--input", str(path)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("batch,skewless_batch,ts\nx,1,1\n")
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "metadata").write_text("{}")
    append = ["run", "wordcount", "--input", str(tmp_path / "in"), "--stream", "--time", "ts"]
    append += ["--window", "1 hour", "--watermark", "1 hour"]
    cases = {
        "there is no file or folder": ["run", "wordcount", "--input", str(tmp_path / "none.csv")],
        "--key COLUMN is needed (several: separated by commas)": count,
        "unknown column 'usr'; did you mean 'user'?": [*count, "--key", "usr"],
        "--workers must be 1 … 16,777,215, not 0": [*count, "--key", "user", "--workers", "0"],
        "did you mean 'cascade'": [*count, "--key", "user", "--strategy", "cascad"],
        "--strategy takes one strategy": [*count, "--key", "user", "--strategy", "hash,pkg"],
        "--checkpoint goes with --stream": [*count, "--key", "user", "--checkpoint", "x"],
        "--stream reads a folder": [*count, "--key", "user", "--stream"],
        "--window and --time go together": [*count, "--key", "user", "--window", "1 minute"],
        "exists already": [*count, "--key", "user", "--output", str(path)],
        "give one of --input PATH and --generate RECORDS": ["run", "vwap"],
        "--generate must be 8 … 100,000,000, not 7": ["run", "vwap", "--generate", "7"],
        "--generate takes a whole number": ["run", "hashtags", "--generate", "many"],
        "--checkpoint goes with --input": [
            *["run", "vwap", "--generate", "10", "--stream", "--checkpoint", "x"]
        ],
        "--set goes with --strategy": ["run", "vwap", "--generate", "10", "--set", "a=1"],
        "--symbol: unknown column 'symbol'": ["run", "vwap", "--input", str(path)],
        "a.csv' has user, n": ["run", "ddos-flows", "--input", str(path)],
        "--time: unknown column 'at'": [
            *["run", "hashtags", "--input", str(path), "--text", "user"],
            *["--time", "at", "--window", "1 hour"],
        ],
        "one of --text COLUMN and --hashtag COLUMN": [
            *["run", "hashtags", "--generate", "10", "--text", "a", "--hashtag", "b"]
        ],
        "--top must be 1 … 2,147,483,647": ["run", "hashtags", "--generate", "10", "--top", "0"],
        "--least must be at least 0": ["run", "road-condition", "--generate", "10", "--least=-1"],
        "--slide goes with --window": ["run", "vwap", "--generate", "10", "--slide", "1 hour"],
        "--slide must be at most --window": [
            *["run", "road-condition", "--generate", "10", "--slide", "1 hour"]
        ],
        "--within: a duration must": ["run", "self-join", "--generate", "10", "--within", "soon"],
        "--strategy: 'auto' is for applications that aggregate, and this one joins: use": [
            *["run", "self-join", "--generate", "10", "--strategy", "auto"]
        ],
        "--strategy: 'plain' is for applications that aggregate": [
            *["run", "self-join", "--generate", "10", "--strategy", "plain"]
        ],
        "--strategy: 'local' is for applications that aggregate": [
            *["run", "self-join", "--generate", "10", "--strategy", "local"]
        ],
        "--set: 'auto' has no parameters": [
            *["run", "vwap", "--generate", "10", "--strategy", "auto", "--set", "a=1"]
        ],
        "--format goes with --input": ["run", "vwap", "--generate", "10", "--format", "csv"],
        "--delimiter goes with --input": ["run", "vwap", "--generate", "10", "--delimiter", ";"],
        "--delimiter must be one ASCII character": [
            *count,
            *["--key", "user", "--delimiter", ";;"],
        ],
        "pkg": ["run", "self-join", "--generate", "10", "--strategy", "pkg"],
        "'skewless_batch' cannot be a column here": [*append, "--key", "batch,skewless_batch"],
        "give one of --vehicle COLUMN and --positions": [
            *["run", "road-condition", "--generate", "10", "--vehicle", "v", "--positions"]
        ],
        "give one of --vehicle": [
            *["run", "road-condition", "--generate", "10", "--vehicle", "vehicle", "--positions"]
        ],
    }
    for message, command in cases.items():
        assert message in refused(*command), command
