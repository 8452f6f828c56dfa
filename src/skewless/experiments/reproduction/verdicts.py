"""Decides what of a figure is reproduced, from the numbers alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from skewless.experiments.reproduction.figure import Claim, Figure, Results

Verdict = Literal["reproduced", "direction only", "not reproduced"]

#: From best to worst.
VERDICTS: tuple[Verdict, ...] = ("reproduced", "direction only", "not reproduced")

_CLOSE = 0.15  # a value counts as the same within this share of it
_FACTOR = 2.0


class Judged(NamedTuple):
    """A claim with our number."""

    claim: Claim
    ours: float
    verdict: Verdict


def judge(claim: Claim, results: Results) -> Judged:
    """Return our number for a claim, and whether it reproduces the published one.

    >>> claim = Claim("A is twice B", "fig. 1", lambda r: r["A"]["x"] / r["B"]["x"], 2.0, "value",
    ...               above=1.0)
    >>> judge(claim, {"A": {"x": 2.2}, "B": {"x": 1.0}}).verdict
    'reproduced'
    >>> judge(claim, {"A": {"x": 1.2}, "B": {"x": 1.0}}).verdict
    'direction only'
    """
    ours = float(claim.ours(results))
    if not math.isfinite(ours):
        return Judged(claim, ours, "not reproduced")
    has_direction = claim.above is not None or claim.below is not None
    directed = (claim.above is None or ours > claim.above) and (
        claim.below is None or ours < claim.below
    )
    if directed and _counts(claim, ours):
        return Judged(claim, ours, "reproduced")
    return Judged(claim, ours, "direction only" if has_direction and directed else "not reproduced")


def _counts(claim: Claim, ours: float) -> bool:
    """Return whether our number is close enough, by the rule of the claim."""
    if claim.counts == "direction" or claim.published is None:
        return True
    published = claim.published
    slack = _CLOSE * abs(published)
    if claim.counts == "value":
        return abs(ours - published) <= slack
    if claim.counts == "at most":
        return ours <= published + slack
    if claim.counts == "at least":
        return ours >= published - slack
    low, high = sorted((published / _FACTOR, published * _FACTOR))
    return low <= ours <= high


def worst(judged: Sequence[Judged]) -> Verdict:
    """Return the verdict of a figure: that of its weakest claim."""
    return max((one.verdict for one in judged), key=VERDICTS.index)


def judge_figure(figure: Figure, results: Results) -> list[Judged]:
    """Return all claims of a figure with our numbers."""
    return [judge(claim, results) for claim in figure.claims]
