"""What goes wrong inside Spark while a command runs is one line on standard error, exit code 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from py4j.protocol import Py4JNetworkError

from command_line import run
from skewless.apps.quiet_session import SparkFailed, quiet_session


@pytest.fixture
def own_session(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands believe that they start and end the session of the tests."""
    monkeypatch.setenv("SKEWLESS_WARM", "")
    monkeypatch.setattr("skewless.apps.quiet_session.session", lambda *_, **__: spark)
    monkeypatch.setattr(type(spark), "stop", lambda self: None)


def failed(*arguments: str) -> str:
    """Return the one line that says what went wrong."""
    result = run(*arguments)
    assert result.exit_code == 1, (result.output, result.exception)
    assert result.stdout == ""
    [line] = [line for line in result.stderr.splitlines() if line.strip()]
    assert line.startswith("skewless: ")
    return line


def commands(path: str) -> list[list[str]]:
    return [
        ["run", "wordcount", "--input", path, "--key", "user", "--workers", "2"],
        ["diagnose", "key", "--input", path, "--key", "user", "--workers", "2", "--spark"],
    ]


@pytest.mark.spark
def test_a_file_system_that_spark_does_not_have(own_session: None) -> None:
    for command in commands("s3a://bucket/x.parquet"):
        line = failed(*command)
        assert "S3AFileSystem not found" in line
        assert "Py4J" not in line


@pytest.mark.spark
def test_a_file_that_is_damaged(own_session: None, tmp_path: Path) -> None:
    whole = tmp_path / "a.parquet"
    pq.write_table(pa.table({"user": ["x", "y"] * 500}), whole)
    (tmp_path / "b.parquet").write_bytes(whole.read_bytes()[:-50])
    for command in commands(str(tmp_path)):
        assert "b.parquet" in failed(*command)


def test_java_that_has_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        def stop(self) -> None:
            raise Py4JNetworkError("cannot reach Java")

    monkeypatch.setenv("SKEWLESS_WARM", "")
    monkeypatch.setattr("skewless.apps.quiet_session.session", lambda *_, **__: Gone())
    with (
        pytest.raises(SparkFailed, match="Spark failed: Answer from Java side is empty"),
        quiet_session("local[1]", tmp_path, "", {}),
    ):
        raise Py4JNetworkError("Answer from Java side is empty\nand more")
