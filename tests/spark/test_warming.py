"""Warming: kernels are compiled for exactly what tasks will hand them."""

from __future__ import annotations

from typing import Any

import numba
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")
from skewless.arrays import Keys, Workers
from skewless.spark import router
from skewless.spark.plans import Routing
from skewless.spark.warming import warm_strategy
from skewless.strategies.hash import Hash


class Recorder(Hash):
    """Routes like its parent, and remembers for which types a kernel would be compiled."""

    def route(self, keys: Keys, state: Any, out: Workers) -> None:
        seen.append((numba.typeof(keys), numba.typeof(state), numba.typeof(out)))
        super().route(keys, state, out)


seen: list[Any] = []


def test_what_is_warm_is_what_a_task_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(router, "this_task", lambda: router.Task(0, None, None))
    warm_strategy(Recorder())
    one = router.Router(Routing(Recorder(), 4), None, False, {})
    assert [len(workers) for workers in one.route(iter([(pa.array([1, 2, 3]),)]))] == [3]
    warmed, called = seen
    assert called == warmed
