"""The tables of speed on Spark: ratios inside one turn, and their medians over turns."""

from __future__ import annotations

from typing import Any

from skewless.experiments import spark_speed


def test_a_first_route_is_told_against_the_second_of_the_same_session() -> None:
    def record(daemon: str, start: float, first: float, second: float) -> dict[str, Any]:
        seconds = {"python_start_s": start, "first_route_s": first, "second_route_s": second}
        return {"daemon": daemon, "kernels": "warm", **seconds}

    records = [
        *(record("ours", 8.0, 3.0, 2.0), record("theirs", 1.0, 4.0, 1.0)),
        *(record("ours", 1.0, 1.0, 1.0), record("theirs", 1.0, 9.0, 2.0)),
        *(record("ours", 6.0, 4.0, 2.0), record("theirs", 1.0, 8.0, 4.0)),
    ]
    assert spark_speed.first_route_table(records).splitlines()[2:] == [
        "| ours | warm | 3.0 | 1.5 |",
        "| theirs | warm | 0.5 | 4.0 |",
    ]
