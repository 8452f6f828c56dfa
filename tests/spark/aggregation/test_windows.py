"""Windows, the panes they are made of, and durations as Spark writes them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="pyspark is not installed")
from pyspark.sql import functions as F

from skewless.spark.aggregation.windows import Window, as_window, microseconds

UNITS = {
    "microseconds": 1,
    "MILLISECOND": 1_000,
    "second": 1_000_000,
    "Minutes": 60_000_000,
    "hours": 3_600_000_000,
    "day": 86_400_000_000,
    "weeks": 604_800_000_000,
}


@given(st.lists(st.tuples(st.integers(-99, 99), st.sampled_from(sorted(UNITS))), min_size=1))
def test_a_duration_is_the_sum_of_its_parts(parts: list[tuple[int, str]]) -> None:
    text = " ".join(f"{number} {unit}" for number, unit in parts)
    wanted = sum(number * UNITS[unit] for number, unit in parts)
    assert microseconds(text) == microseconds(f"  interval {text} ") == wanted


@pytest.mark.parametrize(
    "text",
    ["", " ", "5", "minutes", "5 parsecs", "five minutes", "1 month", "5 minutes, 3", 5, None],
)
def test_what_is_no_duration_is_refused_by_name(text: Any) -> None:
    with pytest.raises(
        ValueError, match=r"^watermark must be numbers with units like .* not "
    ) as e:
        microseconds(text, "watermark")
    assert str(e.value).endswith(f"not {text!r}")


def windows_of(time: int, size: int, slide: int, offset: int) -> list[int]:
    """Return the beginnings of all windows that a time lies in, by trying them."""
    first = (time - size - offset) // slide - 1
    starts = [offset + number * slide for number in range(first, first + size // slide + 4)]
    return [start for start in starts if start <= time < start + size]


@given(st.data())
def test_records_of_a_pane_lie_in_the_same_windows(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 60))
    slide = data.draw(st.integers(1, size))
    offset = data.draw(st.integers(-slide + 1, slide - 1))
    window = Window("ts", f"{size} seconds", f"{slide} seconds", f"{offset} seconds")
    second = 1_000_000
    assert window.pane == math.gcd(size, slide) * second
    assert window.begin == offset * second
    time = data.draw(st.integers(-1000 * second, 1000 * second))
    begin = (time - window.begin) // window.pane * window.pane + window.begin
    wanted = windows_of(time, size * second, slide * second, offset * second)
    assert wanted
    for other in (begin, begin + window.pane - 1):
        assert windows_of(other, size * second, slide * second, offset * second) == wanted


@pytest.mark.slow
@pytest.mark.spark
def test_spark_cuts_time_as_we_do(spark: Any) -> None:
    window = Window("ts", "70 seconds", "25 seconds", "-7 seconds")
    times = [-1_000_000_001, -1, 0, 17_999_999, 18_000_000, 1_700_000_000_123_456]
    df = spark.createDataFrame([(time,) for time in times], "t bigint")
    df = df.withColumn("window", window.of(F.timestamp_micros("t")))
    found = df.select("t", F.unix_micros("window.start").alias("start")).collect()
    for time in times:
        wanted = windows_of(time, 70_000_000, 25_000_000, -7_000_000)
        assert sorted(row["start"] for row in found if row["t"] == time) == wanted


def test_a_window_may_be_given_in_short() -> None:
    assert as_window(None) is None
    assert as_window(("ts", "1 hour")) == Window("ts", "1 hour")
    assert as_window(["ts", "1 hour", "30 minutes"]) == Window("ts", "1 hour", "30 minutes")
    whole = Window("ts", "1 hour", "30 minutes", "5 minutes")
    assert as_window(("ts", "1 hour", "30 minutes", "5 minutes")) == as_window(whole) == whole


@pytest.mark.parametrize(
    ("window", "message"),
    [
        (("ts", "0 seconds"), "size must be above 0, not '0 seconds'"),
        (("ts", "-1 second"), "size must be above 0, not '-1 second'"),
        (("ts", "1 minute", "2 minutes"), r"at most the size \(1 minute\), not '2 minutes'"),
        (("ts", "1 minute", "0 minutes"), r"slide must be above 0 .* not '0 minutes'"),
        (("ts", "1 minute", None, "1 minute"), r"offset .*\(1 minute\), not '1 minute'"),
        (("ts", "9 minutes", "2 minutes", "-3 minutes"), r"\(2 minutes\), not '-3 minutes'"),
        (("ts", "soon"), "size must be numbers with units .* not 'soon'"),
        (("ts", "1 minute", "soon"), "slide must be numbers with units .* not 'soon'"),
        (("ts", "1 minute", None, "soon"), "offset must be numbers with units .* not 'soon'"),
    ],
)
def test_windows_that_cannot_be_are_refused(window: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^window: .*{message}"):
        as_window(window)


@pytest.mark.parametrize("window", ["1 minute", ("ts",), (), 5, ("a", "b", "c", "d", "e")])
def test_what_is_no_window_is_refused(window: Any) -> None:
    with pytest.raises(ValueError, match=r"^window must be a Window or \(time, size"):
        as_window(window)
