"""The tables of speed on Spark: ratios inside one turn, and their medians over turns."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the benchmark runs on Spark")
from benchmarks.on_spark import micro_batches


def test_micro_batches_are_compared_with_spark_within_a_turn() -> None:
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
    assert micro_batches.table(records).splitlines()[2:] == [
        "| 100 | groupBy().count() | 2.50 s | 1.00 | 1.00–1.00 |",
        "| 100 | process | 4.65 s | 1.65 | 1.30–2.00 |",
    ]
