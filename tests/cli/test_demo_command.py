"""`skewless demo`: its table, and what it refuses."""

import re

import pytest

from command_line import lend_session, let_java_be_found, refused, run


@pytest.mark.slow
@pytest.mark.spark
def test_demo_says_that_all_results_equal_plain_spark(spark, monkeypatch):
    lend_session(spark, monkeypatch)
    result = run(
        *["demo", "--records", "4000", "--batches", "2"],
        *["--workers", "4", "--work-us", "0", "--load-us", "0"],
    )
    assert result.exit_code == 0, result.output
    names = ("hash", "shuffle", "cascade-ahead")
    assert "All results equal plain Spark's, record for record: " in result.stdout
    assert re.search(r"cascade-ahead processed \d+\.\d+ × the records per .* hash", result.stdout)
    table, _, _ = result.stdout.partition("cascade-ahead processed")
    rows = {line.split()[0]: line.split() for line in table.splitlines() if line.strip()}
    # Of the stream one word has a third: a worker with it has more than its quarter.
    assert float(rows["hash"][4]) > 0.2
    assert float(rows["cascade-ahead"][4]) < 0.05  # more than its tolerance, in few records
    assert {len(rows[name][3]) for name in names} == {4}  # a bar per worker


def test_demo_refuses_bad_input_before_spark_starts(tmp_path, monkeypatch):
    pytest.importorskip("pyspark", reason="without pyspark that is what is said")
    let_java_be_found(monkeypatch, lambda: tmp_path)
    monkeypatch.setattr("skewless.cli.demo.spark_session", None)  # starting would fail
    assert "--batches must be 1 … 30, not 31" in refused("demo", "--batches", "31")
    assert "--work-us must be 0 … 60,000,000, not -1" in refused("demo", "--work-us", "-1")
    assert "--load-us must be 0 … 60,000,000, not -1" in refused("demo", "--load-us", "-1")
    assert "--records takes a whole number, not 'many'" in refused("demo", "--records", "many")
    assert "did you mean 'hash'" in refused("demo", "--strategy", "hsh")
    (tmp_path / "file").touch()
    assert "--event-log: " in refused("demo", "--event-log", str(tmp_path / "file"))
