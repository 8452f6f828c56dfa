"""The command line in this process: run a command, or be refused, with a session of the tests."""

import contextlib
import importlib

from typer.testing import CliRunner

from skewless.cli import app


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def refused(*arguments):
    """Return the one line that says what is wrong."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    # With an empty cache, the compiler says what it does.
    lines = [line for line in lines if not line.startswith("skewless: compiling kernels")]
    assert len(lines) == 1, lines
    return lines[0]


def lend_session(spark, monkeypatch):
    """Let commands use the session of the tests, and not end it."""

    @contextlib.contextmanager
    def lent(*arguments):
        yield spark

    monkeypatch.setattr("skewless.cli.demo.spark_session", lent)


def let_java_be_found(monkeypatch, find):
    """Let commands find a Java, or not."""
    # By module: the package has a function of the same name.
    monkeypatch.setattr(importlib.import_module("skewless.spark.configuring"), "find_java", find)
