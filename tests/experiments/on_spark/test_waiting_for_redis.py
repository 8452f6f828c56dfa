"""The benchmark that calls Redis does not wait for a server that will never answer."""

from __future__ import annotations

import importlib
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("pyspark", reason="the benchmark runs on Spark")

PROJECT = Path(__file__).parents[3]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(PROJECT))
    return importlib.import_module("benchmarks.on_spark.spark_alternatives")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def started(program: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", program])


def test_a_server_that_ends_is_said(script: ModuleType) -> None:
    server = started("raise SystemExit(3)")
    with pytest.raises(SystemExit, match="redis-server ended with exit code 3"):
        script.wait_for(server, free_port())


def test_a_server_that_is_silent_is_said(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "WITHIN_S", 0.2)
    server = started("import time; time.sleep(600)")
    try:
        with pytest.raises(SystemExit, match=r"did not answer on port \d+ within 0.2 s"):
            script.wait_for(server, free_port())
    finally:
        server.kill()
        server.wait()


def test_a_server_that_answers_is_waited_for(script: ModuleType) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        server = started("import time; time.sleep(600)")
        try:
            script.wait_for(server, listening.getsockname()[1])
        finally:
            server.kill()
            server.wait()
