"""Applications that aggregate by key, or by window and key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from skewless.apps.application import Application, require_duration
from skewless.spark import Window, aggregate
from skewless.spark.aggregation.windows import microseconds


@dataclass(frozen=True, kw_only=True)
class Windowed(Application):
    """An application whose results are aggregates, with or without windows of event time.

    Parameters
    ----------
    strategy, workers, seed
        See `Application`.
    time, window
        The column with the time of a record, and the length of a window; None: no windows.
    slide
        The time from the start of a window to the start of the next; None: windows do not overlap.
    watermark
        How late a record of a stream may be.
    """

    time: str | None = None
    window: str | None = None
    slide: str | None = None
    watermark: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.time is None) != (self.window is None):
            raise ValueError("--window and --time go together: a length, and the column of times")
        for option, value in (("--slide", self.slide), ("--watermark", self.watermark)):
            if value is not None and self.window is None:
                raise ValueError(f"{option} goes with --window and --time")
        require_duration("--window", self.window, least=1)
        require_duration("--slide", self.slide, least=1)
        require_duration("--watermark", self.watermark)
        if self.slide is not None and microseconds(self.slide) > microseconds(str(self.window)):
            raise ValueError(f"--slide must be at most --window, {self.window}, not {self.slide!r}")

    @property
    def mode(self) -> str:
        """How a stream is written.

        With a watermark, every window once, when it is complete; else each micro-batch writes all
        results.
        """
        return "complete" if self.watermark is None else "append"

    def aggregated(
        self,
        records: DataFrame,
        key: str | list[str],
        aggs: Mapping[str, Any],
        ledger: str | None,
        time: str | None = "time",
    ) -> DataFrame:
        """Return aggregates by key, or by window and key if there are windows."""
        return aggregate(
            records,
            key,
            aggs,
            window=None if self.time is None else Window(str(time), str(self.window), self.slide),
            watermark=self.watermark if records.isStreaming else None,
            strategy=self.strategy,
            workers=self.workers,
            seed=self.seed,
            ledger=ledger,
        )
