"""Warming: kernels are compiled for exactly what tasks will hand them."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numba
import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark import daemon as spark_daemon

from skewless.arrays import Keys, Workers
from skewless.kernels.xxhash64 import hash_bytes
from skewless.spark import daemon, warming
from skewless.spark.ledger import files
from skewless.spark.routing import query_ledger, router
from skewless.spark.routing.plans import PlanMaker
from skewless.spark.routing.query_ledger import QueryLedger, Task
from skewless.spark.warming import warm_strategy
from skewless.strategies.hash import Hash


class Recorder(Hash):
    """Routes like its parent, and remembers for which types a kernel would be compiled."""

    def route(self, keys: Keys, state: Any, out: Workers) -> None:
        seen.append((numba.typeof(keys), numba.typeof(state), numba.typeof(out)))
        super().route(keys, state, out)


seen: list[Any] = []


def test_what_is_warm_is_what_a_task_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router, "this_task", lambda: Task(0, None, None))
    warm_strategy(Recorder())
    one = router.Router(PlanMaker(Recorder(), 4), QueryLedger({"seed": 0}))
    assert [len(workers) for workers in one.route(iter([(pa.array([1, 2, 3]),)]))] == [3]
    warmed, called = seen
    assert called == warmed


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux has TCP_QUICKACK")
def test_tasks_are_acknowledged_at_once() -> None:
    """Else Java waits for 40 ms in each task, because it sends the task in several parts."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        java = socket.create_connection(server.getsockname())
        ours, _ = server.accept()
    for _ in range(20):  # Linux puts acknowledgements off where answers follow questions
        java.sendall(b"?")
        ours.sendall(ours.recv(1))
        java.recv(1)
    quick = (socket.IPPROTO_TCP, socket.TCP_QUICKACK)
    before = ours.getsockopt(*quick)
    took = daemon.without_delay(lambda sock, known: sock.getsockopt(*quick) * 2 + known)
    assert (before, took(ours, 1)) == (0, 3)
    java.close()
    ours.close()
    assert daemon.without_delay(lambda sock, known: known)(ours, 1) == 1  # which cannot be asked
    one, other = socket.socketpair()  # without TCP there is nothing to ask for
    assert daemon.without_delay(lambda sock, known: known)(one, 1) == 1
    one.close()
    other.close()


def test_the_seal_of_a_long_file_is_warm_for_what_is_written_and_read() -> None:
    warming.warm([])
    compiled = len(hash_bytes.signatures)
    table = pa.table({"x": np.random.default_rng(0).random(1 << 18)})
    block = files.table_block(table, "test", {})
    assert files.block_table(memoryview(block), "test", "here")[0].equals(table)
    assert compiled
    assert len(hash_bytes.signatures) == compiled


def test_a_daemon_that_cannot_warm_says_so_in_one_line_and_goes_on(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(spark_daemon, "manager", lambda: calls.append("manager"))
    monkeypatch.setenv("SKEWLESS_WARM", "no-such-strategy")
    daemon.main()
    assert calls == ["manager"]
    said = capfd.readouterr()
    assert said.out == ""  # where Spark reads the port
    assert said.err.count("\n") == 1
    assert "ValueError: unknown strategy 'no-such-strategy'" in said.err


def test_spark_does_not_look_through_all_modules_after_each_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It collects garbage then, which takes long if numba and pandas are part of it."""
    frozen: list[int] = []
    monkeypatch.setattr(spark_daemon, "manager", lambda: frozen.append(gc.get_freeze_count()))
    task = Mock(getLocalProperty=lambda name: None)
    monkeypatch.setattr(query_ledger, "TaskContext", Mock(get=lambda: task))
    monkeypatch.setattr(query_ledger, "_TASKS", count(1))
    try:
        daemon.main()
        gc.unfreeze()
        query_ledger.this_task()  # loads what it needs
        frozen.append(gc.get_freeze_count())
        query_ledger.this_task()
        frozen.append(gc.get_freeze_count())
    finally:
        gc.unfreeze()
    assert frozen[0] > 10_000
    assert frozen[1] == 0
    assert frozen[2] > 10_000


@pytest.mark.parametrize("has_folder", [True, False])
def test_no_function_of_a_user_waits_for_the_compiler(tmp_path: Path, has_folder: bool) -> None:
    """With an empty cache, the daemon starts at once, and another process fills the cache.

    Without a home, that is the folder of the daemon and of its workers.
    """
    (tmp_path / "file").touch()
    settings = {"SKEWLESS_CACHE_DIR": str(tmp_path) if has_folder else "", "SKEWLESS_WARM": "hash"}
    settings["XDG_CACHE_HOME"] = str(tmp_path / "file")
    compiled = "print([p.name for p in cache_folder().rglob('*.nbi')])"
    program = (
        "from skewless.plumbing.compiling import cache_folder; from pyspark import daemon; "
        "from skewless.spark import daemon as ours; "
        f"daemon.manager = lambda: {compiled}; "
        f"ours.main(); [one.wait() for one in ours._BESIDE]; {compiled}; "
        f"ours._BESIDE.clear(); ours.main(); print(len(ours._BESIDE))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    at_first, later, again, beside = done.stdout.splitlines()
    assert at_first == "[]"
    assert "hash._route_by_modulo" in later
    assert (again, beside) == (later, "0")


def test_a_reason_of_several_lines_becomes_one(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As the compiler gives them."""

    def fail(names: list[str]) -> None:
        print("to standard output")
        raise RuntimeError("first\n\n  second")

    monkeypatch.setattr(spark_daemon, "manager", lambda: None)
    monkeypatch.setattr(warming, "warm", fail)
    daemon.main()
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[0] == "to standard output"
    assert said.err.splitlines()[1:] == [
        "skewless: kernels were not loaded before the first record (RuntimeError: first second)"
    ]
