"""The table of public workloads: ratios within a round, batches that only close left out."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the benchmark runs on Spark")
from benchmarks.on_spark import public


def run(way: str, number: int, seconds: list[float]) -> dict[str, Any]:
    return {
        "query": "Q0",
        "asks": "what",
        "plain_verb": "groupBy",
        "our_verb": "sessions",
        "way": way,
        "round": number,
        "n_streams": 1,
        "batch_records": [100, 100, 1],
        "batch_seconds": seconds,
        "rows": 1234,
    }


def test_ratios_are_taken_within_a_round() -> None:
    records = [
        run("plain", 1, [2.0, 2.0, 1.0]),
        run("skewless", 1, [1.0, 1.0, 0.5]),
        run("plain", 2, [4.0, 4.0, 2.0]),  # the machine is slower in this round
        run("skewless", 2, [8.0, 8.0, 4.0]),
        run("plain", 3, [2.0, 2.0, 1.0]),
        run("skewless", 3, [2.0, 2.0, 1.0]),
    ]
    line = public.table(records).splitlines()[2]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[:4] == ["Q0", "what", "`groupBy`", "`sessions`"]
    assert cells[4:9] == ["201", "20", "20", "1.00", "0.50 – 2.00"]
    assert cells[9:] == ["2.00", "2.00", "50%", "50%", "1,234"]
