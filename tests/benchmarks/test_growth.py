"""The table of growth: exponents, what is extrapolated, and the smallest sizes measured."""

import pytest

pytest.importorskip("pyspark", reason="the ledger is part of what grows")
from benchmarks.growth import key_plan, source_plan, table


def rows(part, end, seconds):
    return [
        {"part": part, "against": "keys", "size": size, "end": end, "seconds": s, "bytes": 2_000}
        for size, s in seconds.items()
    ]


def test_the_end_lies_on_the_line_through_the_two_largest_sizes():
    measured, linear = table(
        rows("a", 1_000, {10: 0.1, 100: 1.0, 1_000: 100.0}) + rows("b", 10_000, {10: 0.5, 100: 1.4})
    ).splitlines()[2:]
    assert measured.startswith(
        "| a | keys | 10 – 1,000 | 100 ms | 100 s | 2.00 | – | 2 KB | 2 KB |"
    )
    # 0.4 s at once and 0.01 s for each: 10,000 take 100.4 s.
    assert linear == (
        "| b | keys | 10 – 100 | 500 ms | 1.4 s | 0.45 | 100 s | 2 KB | 2 KB | 0.00 | 2 KB |"
    )


def test_plans_and_reports_have_times_and_sizes():
    found = key_plan(4, 1_000) | source_plan(4, 2)
    assert len(found) == 4
    assert all(seconds >= 0 and size > 0 for seconds, size in found.values())
    assert found["ledger: the reports of all sources, read"][1] == (
        2 * found["report of a source (`cascade-ahead`)"][1]
    )
