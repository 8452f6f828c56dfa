"""From what was measured to one plain object per figure: claims, our numbers, the verdict."""

from __future__ import annotations

import math
import numbers
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from skewless.experiments.reproduction.figure import Claim, Figure, Plot, Results, Size
from skewless.experiments.reproduction.runner import Failure, Outcome, failure
from skewless.experiments.reproduction.verdicts import VERDICTS, Judged, judge, judge_figure, worst
from skewless.rounding import significant

#: A figure as JSON has it.
Result = dict[str, Any]

_MARKS = {"value": "", "factor": "≈ ", "at most": "≤ ", "at least": "≥ "}

FAILED = "failed"
MISSED = VERDICTS[-1]

#: How people write the names of the papers.
PAPER_NAMES: Mapping[str, str] = {
    "fish": "FISH",
    "dalton": "Dalton",
    "pstream": "PStream",
    "pd-stream": "Pd-Stream",
    "mixed": "Mixed",
}

#: Every verdict of a figure, from best to worst.
OUTCOMES: tuple[str, ...] = (*VERDICTS, FAILED)


def result(figure: Figure, size: Size, outcome: Outcome) -> Result:
    """Return a figure as plain data; a number that is not finite is None.

    `verdict` is that of the weakest claim, or `failed`, with an `error`. `ours` and `published` are
    the numbers of the claims, in their order. `why` is there only where a claim is not reproduced.
    `plots` has the points of our curves and the published ones.
    """
    about: Result = {
        "paper": figure.paper,
        "figure": figure.number,
        "name": figure.name,
        "title": figure.title,
        "size": size.name,
    }
    judged: Result | Failure = outcome if isinstance(outcome, Failure) else _judged(figure, outcome)
    if isinstance(judged, Failure):
        empty: Result = {name: [] for name in ("ours", "published", "claims", "evidence", "plots")}
        judged = {"verdict": FAILED, "error": judged.error, **empty}
    return {**about, **judged, "data": figure.data}


def _judged(figure: Figure, rows: Results) -> Result | Failure:
    try:
        claims = judge_figure(figure, rows)
        verdict = worst(claims)
        found: Result = {
            "verdict": verdict,
            "ours": [_finite(one.ours) for one in claims],
            "published": [one.claim.published for one in claims],
            "claims": [_claim(one) for one in claims],
            "evidence": [_claim(judge(claim, rows)) for claim in figure.evidence],
            "plots": [_plot(plot, rows) for plot in figure.plots],
        }
    except Exception as error:  # a mistake in one figure must not stop the others
        return failure(error)
    return {**found, "why": figure.why} if verdict == MISSED else found


def _claim(one: Judged) -> dict[str, Any]:
    return {
        "says": one.claim.says,
        "place": one.claim.place,
        "ours": _finite(one.ours),
        "published": one.claim.published,
        "counts": one.claim.counts,
        "expected": expected(one.claim),
        "verdict": one.verdict,
    }


def expected(claim: Claim) -> str:
    """Return what a claim expects, for people: the published number with its rule, or a direction.

    >>> expected(Claim("", "", lambda rows: 0.0, 2.0, "factor", above=1.0))
    '≈ 2'
    >>> expected(Claim("", "", lambda rows: 0.0, above=1.0, below=4.0))
    '> 1 and < 4'
    """
    if claim.counts != "direction":
        return _MARKS[claim.counts] + significant(claim.published)
    limits = " and ".join(
        f"{sign} {significant(limit)}"
        for sign, limit in ((">", claim.above), ("<", claim.below))
        if limit is not None
    )
    return limits if claim.published is None else f"{significant(claim.published)}; {limits}"


def _plot(plot: Plot, rows: Results) -> dict[str, Any]:
    return {
        "x": plot.x,
        "y": plot.y,
        "log_y": plot.log_y,
        "curves": _points(plot.curves(rows)),
        "published": _points(dict(plot.published)),
    }


def _points(curves: Mapping[str, Iterable[tuple[Any, float]]]) -> dict[str, list[list[Any]]]:
    """Return the points of curves; what is on the x axis is a number or a text."""
    return {name: [[_place(x), _finite(y)] for x, y in points] for name, points in curves.items()}


def _place(x: Any) -> float | int | str:
    if isinstance(x, numbers.Integral) and not isinstance(x, bool):
        return int(x)
    return float(x) if isinstance(x, numbers.Real) and math.isfinite(x) else str(x)


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None


def without_plots(one: Result) -> Result:
    """Return a result without the points of its plots, which the raw records can give again."""
    return {name: value for name, value in one.items() if name != "plots"}


def totals(results: Sequence[Result]) -> dict[str, int]:
    """Return how many figures have each verdict.

    >>> totals([{"verdict": "reproduced"}, {"verdict": "failed"}])
    {'reproduced': 1, 'direction only': 0, 'not reproduced': 0, 'failed': 1}
    """
    counts = Counter(one["verdict"] for one in results)
    return {verdict: counts[verdict] for verdict in OUTCOMES}


def summary(results: Sequence[Result]) -> str:
    """Return how many figures have which verdict, as one sentence.

    >>> summary([{"verdict": "reproduced"}, {"verdict": "failed"}])
    '2 figures and tables: 1 reproduced, 1 failed. 50 % hold, at least in direction.'
    """
    if not results:
        return "There are no figures."
    counts = [f"{count} {verdict}" for verdict, count in totals(results).items() if count]
    held = sum(one["verdict"] not in (MISSED, FAILED) for one in results)
    share = math.floor(100 * held / len(results))  # never more than it is
    return (
        f"{len(results)} figures and tables: {', '.join(counts)}. "
        f"{share} % hold, at least in direction."
    )


def without_reason(results: Sequence[Result]) -> list[str]:
    """Return the names of missed figures that lack a reason, or an experiment that shows it."""
    return [
        one["name"]
        for one in results
        if one["verdict"] == MISSED and not (one["why"] and one["evidence"])
    ]
