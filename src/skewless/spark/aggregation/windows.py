"""Event-time windows, and the panes that they are made of."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from skewless.plumbing.arguments import shown, text

#: The column of the windows in the results.
WINDOW = "window"
#: The entry of a column's metadata in which Spark keeps the delay of a watermark on it.
WATERMARK = "spark.watermarkDelayMs"
_MICROS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_PART = rf"\s*(-?[0-9]{{1,19}})\s*({'|'.join(_MICROS)})s?"
_DURATION = re.compile(rf"\s*(?:interval\s)?(?:{_PART})+\s*", re.IGNORECASE | re.ASCII)
#: The longest duration, in microseconds: half of what Spark's times hold.
LONGEST = 1 << 62


def microseconds(duration: str, argument: str = "a duration") -> int:
    """Return a duration in microseconds, from Spark's text for it; errors name the argument.

    >>> microseconds("1 hour 30 minutes") // 60_000_000
    90
    """
    if not isinstance(duration, str) or not _DURATION.fullmatch(duration):
        raise ValueError(
            f"{argument} must be numbers with units like '10 minutes' or '1 hour 30 seconds' "
            f"({', '.join(_MICROS)}), not {shown(duration)}"
        )
    parts = re.findall(_PART, duration, re.IGNORECASE)
    total = sum(int(number) * _MICROS[unit.lower()] for number, unit in parts)
    if abs(total) > LONGEST:
        raise ValueError(f"{argument} must be shorter than 146,000 years, not {duration!r}")
    return total


def spelled(duration: str) -> str:
    """Return a duration in a form that Spark always reads.

    >>> spelled("1 minute 1second")
    '61000000 microseconds'
    """
    return f"{microseconds(duration)} microseconds"


@dataclass(frozen=True)
class Window:
    """Windows of event time, tumbling or sliding.

    Parameters
    ----------
    time
        The column with the time of the record.
    size
        How long a window is, e.g. "10 minutes".
    slide
        The time from the start of one window to the start of the next; None: the size.
    offset
        Where windows begin, counted from 1970-01-01 00:00 UTC; less than the slide.

    Examples
    --------
    >>> Window("ts", "10 minutes", slide="4 minutes").pane // 60_000_000
    2
    >>> Window("ts", "10 minutes", slide="1 hour")
    Traceback (most recent call last):
        ...
    ValueError: window: slide must be above 0 and at most the size (10 minutes), not '1 hour'
    """

    time: str
    size: str
    slide: str | None = None
    offset: str | None = None

    def __post_init__(self) -> None:
        text(self.time, "window: time", "the name of a column")
        size = microseconds(self.size, "window: size")
        slide = size if self.slide is None else microseconds(self.slide, "window: slide")
        if size <= 0:
            raise ValueError(f"window: size must be above 0, not {self.size!r}")
        if not 0 < slide <= size:
            raise ValueError(
                f"window: slide must be above 0 and at most the size ({self.size}), "
                f"not {self.slide!r}"
            )
        if self.offset is not None and abs(microseconds(self.offset, "window: offset")) >= slide:
            raise ValueError(
                "window: offset must be shorter than the slide "
                f"({self.slide or self.size}), not {self.offset!r}"
            )

    @property
    def pane(self) -> int:
        """The longest length, in microseconds, that divides both the size and the slide."""
        size = microseconds(self.size)
        return math.gcd(size, microseconds(self.slide) if self.slide else size)

    @property
    def begin(self) -> int:
        """Where panes are counted from, in microseconds since 1970."""
        return microseconds(self.offset) if self.offset else 0

    def of(self, time: Column) -> Column:
        """Return Spark's window column for a time."""
        slide = spelled(self.slide or self.size)
        return F.window(time, spelled(self.size), slide, spelled(self.offset or "0 seconds"))


@dataclass(frozen=True)
class Lateness:
    """How late a record may be: by a watermark of ours, or by one that the stream has already."""

    watermark: str | None = None
    carried_ms: int | None = None

    @property
    def is_given(self) -> bool:
        """Whether there is a watermark, so that windows close."""
        return self.watermark is not None or self.carried_ms is not None

    def applied(self, df: DataFrame, time: str) -> DataFrame:
        """Return the partial results of a stream with the watermark on their time."""
        if df.isStreaming and self.watermark is not None:
            return df.withWatermark(time, spelled(self.watermark))
        if df.isStreaming and self.carried_ms is not None:
            # Python functions lose this metadata; the watermark itself is applied before them.
            return df.withMetadata(time, {WATERMARK: self.carried_ms})
        return df


def as_window(window: Any) -> Window | None:
    """Return the window that a user gave: a Window, or (time, size[, slide[, offset]])."""
    if window is None or isinstance(window, Window):
        return window
    if isinstance(window, tuple | list) and 2 <= len(window) <= 4:
        return Window(*window)
    raise ValueError(
        f"window must be a Window or (time, size[, slide[, offset]]), not {shown(window)}"
    )
