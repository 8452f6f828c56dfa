"""The figures and tables of PStream, as data.

Chen, Zhang, Jin: PStream: a popularity-aware differentiated distributed stream processing system,
IEEE Transactions on Computers 2021. `coins` has Tables 1 and 2, `predictors` Figures 34–36.
"""

from __future__ import annotations

from skewless.experiments.reproduction.figure import Figure
from skewless.experiments.reproduction.papers.pstream import coins, predictors, skew

FIGURES: tuple[Figure, ...] = (*skew.FIGURES, *coins.FIGURES, *predictors.FIGURES)
