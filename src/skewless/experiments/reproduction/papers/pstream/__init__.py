"""The figures and tables of PStream, as data.

Chen, Zhang, Jin: PStream: a popularity-aware differentiated distributed stream processing system,
IEEE Transactions on Computers 2021. `skew` and the first figures of `parallelism` and `overall` are
the paper's motivation (Figures 2–6). `coins` has Tables 1 and 2. `overall` (14–17), `parallelism`
(13, 33), `loads` (28) and `thresholds` (29–32) are about throughput, latency and loads.
`predictors` has Figures 34–36, and recall and precision of predictors of hot keys in one table.

What counts as reproduced: multiples of a cluster, such as 2.3 times, within a factor of 2. Gains of
some percent are compared as ratios within 15 %, because a factor of 2 around 1.2 would admit almost
anything; small differences, such as 9 %, as differences within a factor of 2.
"""

from __future__ import annotations

from skewless.experiments.reproduction.figure import Figure
from skewless.experiments.reproduction.papers.pstream import (
    coins,
    loads,
    overall,
    parallelism,
    predictors,
    skew,
    thresholds,
)


def _place(figure: Figure) -> tuple[float, str]:
    """Return where a figure stands in the paper: tables come between Figures 12 and 13."""
    number = figure.number.removeprefix("table ")
    digits = "".join(filter(str.isdigit, number))
    if not digits:
        return 100.0, number  # our own table of predictors, at the end
    return (12 + int(digits) / 10 if "table" in figure.number else float(digits)), number


FIGURES: tuple[Figure, ...] = tuple(
    sorted(
        (
            *skew.FIGURES,
            *coins.FIGURES,
            *parallelism.FIGURES_OF_MOTIVATION,
            *parallelism.FIGURES,
            *overall.FIGURES_OF_MOTIVATION,
            *overall.FIGURES,
            *loads.FIGURES,
            *thresholds.FIGURES,
            *predictors.FIGURES,
        ),
        key=_place,
    )
)
