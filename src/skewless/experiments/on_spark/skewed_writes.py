"""Partitioned writes of skewed keys: time, files and the largest file of each way to do it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from skewless.experiments.tables import Row, markdown

OURS = "route"


def table(records: Sequence[Row]) -> str:
    """Return one line per way; times are medians of ratios to `route` in the same turn."""
    ways = list(dict.fromkeys(r["way"] for r in records))
    ours = {r["turn"]: r["seconds"] for r in records if r["way"] == OURS}
    rows = []
    for way in ways:
        mine = [r for r in records if r["way"] == way]
        ratio = median(r["seconds"] / ours[r["turn"]] for r in mine)
        first = mine[0]
        rows.append(
            [
                way,
                f"{ratio:.2f}",
                f"{first['files']:,}",
                f"{first['files_of_hottest']:,}",
                f"{first['largest_file'] / 2**20:.1f} MiB",
                f"{first['largest_task'] / first['mean_task']:.2f}",
            ]
        )
    headings = (
        "before the write",
        "time / route",
        "files",
        "files of the hottest key",
        "largest file",
        "largest task / mean",
    )
    return markdown(headings, rows)
