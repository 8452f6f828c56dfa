"""From what was measured to one plain object per figure: claims, our numbers, the verdict."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.records import Row
from experiments.reproduction.figure import Claim, Figure, Size
from experiments.reproduction.runner import Failure, Outcome, failure
from experiments.reproduction.table import NotMeasuredError
from skewless.plumbing.text_tables import significant

#: A figure as JSON has it.
Result = dict[str, Any]

#: Every verdict of a figure, from best to worst.
OUTCOMES = ("reproduced", "direction only", "not reproduced", "failed")
REPRODUCED, DIRECTION, MISSED, FAILED = OUTCOMES

_CLOSE = 0.15  # a value counts as the same within this share of it
_SIZE = 0.5  # and it may lack at most this share of the published effect
_EFFECT = 0.2  # a direction counts from this share of the published effect on
_MARKS = {"value": "", "at_most": "≤ ", "at_least": "≥ "}


def judge(claim: Claim, ours: float) -> str:
    """Return whether our number reproduces a claim.

    >>> claim = Claim("A is twice B", "fig. 1", {}, {"value": 2.0, "above": 1.0})
    >>> [judge(claim, ours) for ours in (2.2, 1.3, 1.1, 0.9)]
    ['reproduced', 'direction only', 'not reproduced', 'not reproduced']
    """
    if not math.isfinite(ours):
        return MISSED
    above, below = claim.expects.get("above", -math.inf), claim.expects.get("below", math.inf)
    if claim.rule == "direction":
        return REPRODUCED if above < ours < below else MISSED
    limits = [limit for limit in (above, below) if math.isfinite(limit)]
    effect = min(((ours - at) / (claim.nearest_to(at) - at) for at in limits), default=None)
    published = claim.expects[claim.rule]
    if claim.rule == "between":
        is_close = published[0] <= ours <= published[1]
    elif claim.rule == "value":
        is_close = abs(ours - published) <= _CLOSE * abs(published)
    else:
        is_close = ours <= published if claim.rule == "at_most" else ours >= published
    if is_close and (effect is None or effect >= _SIZE):
        return REPRODUCED
    return DIRECTION if effect is not None and effect >= _EFFECT else MISSED


def recorded(figure: Figure, size: Size, outcome: Outcome) -> Row:
    """List the measured numbers, each with how it is computed; or an `error`."""
    found: Row = {"name": figure.name, "size": size.name}
    if isinstance(outcome, Failure):
        return found | {"error": outcome.error}
    try:
        numbers = figure.numbers(outcome, size)
        ours = [(one.ours, numbers.number(one.ours)) for one in (*figure.claims, *figure.evidence)]
    except Exception as error:  # a mistake in one figure must not stop the others
        return found | {"error": failure(error).error}
    measured = [{"number": n, "ours": v if math.isfinite(v) else None} for n, v in ours]
    return found | {"numbers": measured}


def result(figure: Figure, record: Row) -> Result:
    """Return a figure as plain data: texts and rules of the catalogue, numbers of a record.

    `verdict` is that of the weakest claim, or `failed`, with an `error`: that of the record, or
    that the record lacks a number of a claim. `why` is there only where a claim is not fully
    reproduced, and `fitted` where a setting was chosen so that a claim holds.
    """
    found: Result = {"paper": figure.paper.name, "figure": figure.number, "name": figure.name}
    found |= {"title": figure.title, "size": record["size"], "data": figure.data}
    found |= {"claims": [], "evidence": []}
    try:
        for part in ("claims", "evidence"):
            found[part] = [_claim(claim, record) for claim in getattr(figure, part)]
    except NotMeasuredError as error:
        return {**found, "verdict": FAILED, "error": record.get("error", str(error))}
    found["verdict"] = max((one["verdict"] for one in found["claims"]), key=OUTCOMES.index)
    found |= {"fitted": figure.fitted} if figure.fitted else {}
    return found if found["verdict"] == REPRODUCED else {**found, "why": figure.why}


def _claim(claim: Claim, record: Row) -> dict[str, Any]:
    known = [one["ours"] for one in record.get("numbers", ()) if one["number"] == claim.ours]
    if not known:
        raise NotMeasuredError(f"no number is recorded for {claim.says!r}; measure it again")
    return {
        "says": claim.says,
        "place": claim.place,
        "ours": known[0],
        "expected": expected(claim),
        "because": claim.because,
        "verdict": judge(claim, math.nan if known[0] is None else known[0]),
    }


def expected(claim: Claim) -> str:
    """Describe the expectation of a claim: the published number with its rule, or a direction.

    >>> expected(Claim("", "", {}, {"at_least": 2.0, "above": 1.0}))
    '≥ 2'
    >>> expected(Claim("", "", {}, {"between": [6.4, 9.6]}, "almost linear"))
    '6.4 to 9.6'
    >>> expected(Claim("", "", {}, {"above": 1.2, "below": 4.0}))
    '> 1.2 and < 4'
    """
    if claim.rule == "between":
        return " to ".join(map(significant, claim.expects["between"]))
    if claim.published is not None:
        return _MARKS[claim.rule] + significant(claim.published)
    limits = ((">", claim.expects.get("above")), ("<", claim.expects.get("below")))
    return " and ".join(f"{sign} {significant(one)}" for sign, one in limits if one is not None)


def summary(results: Sequence[Result]) -> str:
    """Count the figures by verdict, and their claims, of which the weakest decides on a figure.

    >>> summary([{"verdict": "reproduced", "claims": [{"verdict": "reproduced"}]}])
    '1 figures and tables: 1 reproduced. 100 % hold, at least in direction. 1 claims: 1 reproduced.'
    """
    if not results:
        return "There are no figures."
    claims = [claim for one in results for claim in one["claims"]]
    held = sum(one["verdict"] in (REPRODUCED, DIRECTION) for one in results)
    share = 100 * held // len(results)  # never more than it is
    return (
        f"{len(results)} figures and tables: {_counted(results)}. "
        f"{share} % hold, at least in direction. {len(claims)} claims: {_counted(claims)}."
    )


def _counted(judged: Iterable[Mapping[str, Any]]) -> str:
    verdicts = Counter(one["verdict"] for one in judged)
    return ", ".join(f"{verdicts[one]} {one}" for one in OUTCOMES if verdicts[one])


def without_reason(results: Sequence[Result]) -> list[str]:
    """Return the figures, not fully reproduced, without a reason whose evidence holds."""
    partly = [one for one in results if one["verdict"] in (DIRECTION, MISSED)]
    shown = [{claim["verdict"] for claim in one["evidence"]} for one in partly]
    both = zip(partly, shown, strict=True)
    return [one["name"] for one, held in both if not one["why"] or held != {REPRODUCED}]
