"""The table of Q5 is what the raw records say."""

import pytest

pytest.importorskip("pyspark", reason="the benchmark runs on Spark")
from benchmarks.on_spark.tpch_q5 import table
from benchmarks.records import Row


def record(strategy: str, number: int, seconds: float, imbalance: float, moved: int) -> Row:
    slow = {"batch": 0, "records": 100, "seconds": 50.0, "imbalance": 9.0, "moved": 0}
    later = [
        {"batch": 1, "records": 300, "seconds": seconds, "imbalance": imbalance, "moved": moved},
        {"batch": 2, "records": 300, "seconds": seconds, "imbalance": imbalance + 0.2, "moved": 0},
    ]
    return {"strategy": strategy, "round": number, "rows": 1_234, "batches": [slow, *later]}


def test_ratios_are_within_a_round_and_the_first_batch_does_not_count() -> None:
    records = [
        record("hash", 0, 2.0, 0.5, 0),
        record("hash", 1, 4.0, 0.5, 0),
        record("hash", 2, 1.0, 0.5, 0),
        record("mixed", 0, 1.0, 0.1, 8),
        record("mixed", 1, 4.0, 0.1, 8),
        record("mixed", 2, 2.0, 0.1, 8),
    ]
    lines = table(records).splitlines()
    assert lines[2] == "| `hash` | 1.60 | 1.70 | 0 | 150 | 1.00 | 1.00 – 1.00 | 3 | 1,234 |"
    assert lines[3] == "| `mixed` | 1.20 | 1.30 | 4 | 150 | 1.00 | 0.50 – 2.00 | 3 | 1,234 |"


def test_one_round_has_no_range() -> None:
    lines = table([record("hash", 0, 2.0, 0.5, 0), record("mixed", 0, 1.0, 0.1, 8)]).splitlines()
    assert lines[3].endswith("| 300 | 2.00 | – | 1 | 1,234 |")
