"""The tables of speed on Spark: ratios inside one turn, and their medians over turns."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the benchmark runs on Spark")
from benchmarks.on_spark import small_batches, stateful_operators


def test_keyed_state_is_compared_with_process_by_medians() -> None:
    times = {"process": [2.0, 1.0, 9.0], "transformWithState": [5.0, 3.0]}
    records = [
        {"way": way, "batch": batch, "seconds": seconds}
        for way, all_seconds in times.items()
        for batch, seconds in enumerate(all_seconds)
    ]
    lines = stateful_operators.table(records).splitlines()
    assert lines[2:] == [
        "| process | 3 | 2.00 s | 1.00 |",
        "| transformWithState | 2 | 4.00 s | 2.00 |",
    ]


def test_small_batches_are_compared_with_spark_within_a_turn() -> None:
    def record(way: str, turn: int, seconds: float) -> dict[str, Any]:
        return {"records": 100, "way": way, "turn": turn, "batch": 0, "seconds": seconds}

    records = [
        *(
            record("groupBy().count()", 0, 1.0),
            record("process", 0, 1.5),
            record("process", 0, 1.1),
        ),
        *(record("process", 1, 8.0), record("groupBy().count()", 1, 4.0)),
    ]
    assert small_batches.table(records).splitlines()[2:] == [
        "| 100 | groupBy().count() | 2.50 s | 1.00 | 1.00–1.00 |",
        "| 100 | process | 4.65 s | 1.65 | 1.30–2.00 |",
    ]
