"""Keyed state on Spark: the time of a micro-batch with `process` and with Spark's own operators."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from skewless.experiments.tables import Row, markdown

OURS = "process"


def table(records: Sequence[Row]) -> str:
    """Return one line per way to keep state; ratios are to `process` in the same run."""
    ways = list(dict.fromkeys(record["way"] for record in records))
    seconds = {way: median(r["seconds"] for r in records if r["way"] == way) for way in ways}
    rows = [
        [
            way,
            str(sum(record["way"] == way for record in records)),
            f"{seconds[way]:.2f} s",
            f"{seconds[way] / seconds[OURS]:.2f}",
        ]
        for way in ways
    ]
    return markdown(("way", "micro-batches", "median time", "time / process"), rows)
