"""The tables of speed on Spark: ratios inside one turn, and their medians over turns."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the benchmark runs on Spark")
from benchmarks import held_keys
from benchmarks.on_spark import first_route, small_batches, stateful_operators


def test_a_first_route_is_told_against_the_second_of_the_same_session() -> None:
    def record(daemon: str, start: float, first: float, second: float) -> dict[str, Any]:
        seconds = {"python_start_s": start, "first_route_s": first, "second_route_s": second}
        return {"daemon": daemon, "kernels": "warm", **seconds}

    records = [
        *(record("ours", 8.0, 3.0, 2.0), record("theirs", 1.0, 4.0, 1.0)),
        *(record("ours", 1.0, 1.0, 1.0), record("theirs", 1.0, 9.0, 2.0)),
        *(record("ours", 6.0, 4.0, 2.0), record("theirs", 1.0, 8.0, 4.0)),
    ]
    assert first_route.table(records).splitlines()[2:] == [
        "| ours | warm | 2.0 | 3.0 | 1.5 |",
        "| theirs | warm | 2.0 | 0.5 | 4.0 |",
    ]


def test_keyed_state_is_compared_with_process_by_medians() -> None:
    times = {"process": [2.0, 1.0, 9.0], "applyInPandasWithState": [5.0, 3.0]}
    records = [
        {"way": way, "batch": batch, "seconds": seconds}
        for way, all_seconds in times.items()
        for batch, seconds in enumerate(all_seconds)
    ]
    lines = stateful_operators.table(records).splitlines()
    assert lines[2:] == [
        "| process | 3 | 2.00 s | 1.00 |",
        "| applyInPandasWithState | 2 | 4.00 s | 2.00 |",
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


def test_held_keys_are_compared_within_a_round() -> None:
    def record(held: int, cold: bool, number: int, seconds: float) -> dict[str, Any]:
        about = {"held": held, "touched": 1_000, "cold": cold}
        return {**about, "round": number, "seconds": seconds}

    records = [
        *(record(100, False, 1, 1.0), record(2_000, False, 1, 2.0)),
        *(record(100, False, 2, 2.0), record(2_000, False, 2, 3.0)),
        *(record(100, True, 1, 4.0), record(2_000, True, 1, 4.0)),
    ]
    assert held_keys.table(records).splitlines()[2:] == [
        "| kept open | 100 | 1,000 | 1.500 | 1.00 | 1.00 – 1.00 | 2 |",
        "| kept open | 2,000 | 1,000 | 2.500 | 1.75 | 1.50 – 2.00 | 2 |",
        "| read anew in each micro-batch | 100 | 1,000 | 4.000 | 1.00 | – | 1 |",
        "| read anew in each micro-batch | 2,000 | 1,000 | 4.000 | 1.00 | – | 1 |",
    ]
