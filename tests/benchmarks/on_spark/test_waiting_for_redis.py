"""The benchmark that calls Redis does not wait for a server that will never answer."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from benchmarks import kinds_of_work


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def started(program: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", program])


def test_a_server_that_ends_is_said() -> None:
    server = started("raise SystemExit(3)")
    with pytest.raises(SystemExit, match="redis-server ended with exit code 3"):
        kinds_of_work.wait_for(server, free_port())


def test_a_server_that_is_silent_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds_of_work, "WITHIN_S", 0.2)
    server = started("import time; time.sleep(600)")
    try:
        with pytest.raises(SystemExit, match=r"did not answer on port \d+ within 0.2 s"):
            kinds_of_work.wait_for(server, free_port())
    finally:
        server.kill()
        server.wait()


def test_a_server_that_answers_is_waited_for() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        server = started("import time; time.sleep(600)")
        try:
            kinds_of_work.wait_for(server, listening.getsockname()[1])
        finally:
            server.kill()
            server.wait()
