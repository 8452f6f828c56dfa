"""What routing on Spark brings and costs, as ratios inside one run."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from skewless.experiments.tables import Row, markdown
from skewless.metrics import imbalance


def table(records: Sequence[Row], comparison: str) -> str:
    """Return the jobs of one comparison: time against hashing, balance, and replicas."""
    chosen = [record for record in records if record["comparison"] == comparison]
    seconds = {job: _seconds(chosen, job) for job in dict.fromkeys(r["job"] for r in chosen)}
    has_loads = any("loads" in record for record in chosen)
    rows = []
    for job in seconds:
        ratios = [ours / hashed for ours, hashed in zip(seconds[job], seconds["hash"], strict=True)]
        row: list[object] = [job, f"{median(ratios):.2f}", f"{1 / median(ratios):.2f}"]
        if has_loads:
            last: dict[str, Any] = [r for r in chosen if r["job"] == job][-1]
            row.append(f"{imbalance(last['loads']):.2g}")
            row.append(f"{last['pairs'] - last['keys']:,}")
        rows.append(row)
    headings = ["job", "time / hash", "throughput / hash"]
    return markdown(headings + (["imbalance", "extra replicas"] if has_loads else []), rows)


def first_route_table(records: Sequence[Row]) -> str:
    """Return what beginning costs, case by case, against the second route of the same session."""
    rows = []
    for daemon, kernels in dict.fromkeys((r["daemon"], r["kernels"]) for r in records):
        chosen = [r for r in records if (r["daemon"], r["kernels"]) == (daemon, kernels)]
        ratios = [
            median(record[what] / record["second_route_s"] for record in chosen)
            for what in ("python_start_s", "first_route_s")
        ]
        rows.append([daemon, kernels, *[f"{ratio:.1f}" for ratio in ratios]])
    headings = ["daemon", "kernels", "start of Python / second route", "first / second route"]
    return markdown(headings, rows)


def _seconds(records: Sequence[Row], job: str) -> list[float]:
    return [r["seconds"] for r in sorted(records, key=lambda r: r["turn"]) if r["job"] == job]
