"""The table of the simulator's speed: ratios inside one turn, and what is measured for it."""

from __future__ import annotations

from typing import Any

from benchmarks import simulator_speed
from skewless.workloads import Zipf


def test_the_speed_of_the_simulator_is_told_against_one_source_of_the_same_turn() -> None:
    def record(sources: int, repetition: int, seconds: float) -> list[dict[str, Any]]:
        about = {"sources": sources, "repetition": repetition, "records": 12_000_000}
        return [{**about, "kind": kind, "seconds": seconds} for kind in simulator_speed.KINDS]

    records = [
        *(*record(1, 0, 2.0), *record(8, 0, 4.0)),
        *(*record(1, 1, 3.0), *record(8, 1, 4.0)),
        *(*record(1, 2, 6.0), *record(8, 2, 3.0)),
    ]
    assert simulator_speed.table(records).splitlines()[2:] == [
        "| 1 | 4.0 (1.00) | 4.0 (1.00) | 4.0 (1.00) |",
        "| 8 | 3.0 (0.75) | 3.0 (0.75) | 3.0 (0.75) |",
    ]


def test_the_speed_of_the_simulator_is_measured_for_all_kinds() -> None:
    stream = Zipf(z=1.2, n_keys=100, n_records=3_000)
    records = list(simulator_speed.measure(stream=stream, sources=(1, 3), repetitions=1))
    assert [(r["sources"], r["kind"]) for r in records] == [
        (sources, kind) for sources in (1, 3) for kind in simulator_speed.KINDS
    ]
    assert all(r["records"] == 3_000 and r["seconds"] > 0 for r in records)
