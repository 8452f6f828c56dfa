"""What `aggregate(strategy="auto")` costs against the best that one would write without it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from skewless.experiments.tables import Row, markdown

AUTO = "auto"


def table(records: Sequence[Row]) -> str:
    """Return one line per stream and aggregation: all jobs as ratios to the best alternative.

    A ratio is taken between jobs of the same turn, and the table has the median over turns. The
    best is the alternative with the smallest median time.
    """
    alternatives = [j for j in dict.fromkeys(r["job"] for r in records) if j != AUTO]
    rows = []
    for stream, aggregation in dict.fromkeys((r["stream"], r["aggregation"]) for r in records):
        chosen = [r for r in records if (r["stream"], r["aggregation"]) == (stream, aggregation)]
        seconds = {job: _by_turn(chosen, job) for job in dict.fromkeys(r["job"] for r in chosen)}
        others = {job: turns for job, turns in seconds.items() if job != AUTO}
        best = min(others, key=lambda job: median(others[job].values()))
        form = next(r["form"] for r in chosen if r["job"] == AUTO)
        cells = [_ratio(seconds.get(job), seconds[best]) for job in (AUTO, *alternatives)]
        rows.append([stream, aggregation, form, best, *cells])
    headings = ["stream", "aggregation", "auto is", "best other", "auto / best"]
    return markdown([*headings, *[f"{job} / best" for job in alternatives]], rows)


def _by_turn(records: Sequence[Row], job: str) -> dict[int, float]:
    return {r["turn"]: r["seconds"] for r in records if r["job"] == job}


def _ratio(ours: dict[int, float] | None, best: dict[int, float]) -> str:
    if ours is None:
        return ""
    return f"{median(ours[turn] / best[turn] for turn in ours if turn in best):.2f}"
