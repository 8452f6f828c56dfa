"""Public workloads, by plain Spark and by skewless: throughput and batch time side by side."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from skewless.experiments.tables import Row, markdown, range_of

PLAIN, OURS = "plain", "skewless"
HEADINGS = (
    "query",
    "what it asks",
    "plain Spark",
    "skewless",
    "records/s: plain",
    "records/s: skewless",
    "skewless / plain",
    "lowest to highest",
    "batch in s: plain",
    "batch in s: skewless",
    "rows, equal",
)


def table(records: Sequence[Row]) -> str:
    """Return one line per query; the ratio is the median over rounds, each within one round."""
    rows = []
    for query in dict.fromkeys(record["query"] for record in records):
        mine = [record for record in records if record["query"] == query]
        plain, ours = ({r["round"]: r for r in mine if r["way"] == way} for way in (PLAIN, OURS))
        ratios = [
            sum(plain[number]["batch_seconds"]) / sum(ours[number]["batch_seconds"])
            for number in sorted(plain.keys() & ours.keys())
        ]
        first = mine[0]
        rows.append(
            [
                query,
                first["asks"],
                f"`{first['plain_verb']}`",
                first["our_verb"] if " " in first["our_verb"] else f"`{first['our_verb']}`",
                f"{_speed(plain):,.0f}",
                f"{_speed(ours):,.0f}",
                f"{median(ratios):.2f}",
                range_of(ratios),
                f"{_batch_seconds(plain):.2f}",
                f"{_batch_seconds(ours):.2f}",
                f"{first['rows']:,}",
            ]
        )
    return markdown(HEADINGS, rows)


def _speed(runs: dict[int, Row]) -> float:
    """Return records per second of all micro-batches, the median over rounds."""
    return float(median(sum(r["batch_records"]) / sum(r["batch_seconds"]) for r in runs.values()))


def _batch_seconds(runs: dict[int, Row]) -> float:
    """Return the median time of a micro-batch of more than one record per stream."""
    return float(
        median(
            seconds
            for r in runs.values()
            for seconds, n in zip(r["batch_seconds"], r["batch_records"], strict=True)
            if n > r["n_streams"]
        )
    )
