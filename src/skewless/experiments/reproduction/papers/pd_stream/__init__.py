"""Pd-Stream: the figures and tables of its evaluation.

Read `streams` first: the streams of the paper and what stands in for those that cannot be had.
`tables` has Tables II to IV, `speed` latency and throughput (Figures 4 and 6), `over_time` the
same over time (Figures 5 and 7), `balance` Figures 8 and 9, `replicas` Figures 10 and 11, `costs`
Figures 12 and 13. `routers` has the cell that counts what routing looks at.
"""

from skewless.experiments.reproduction.figure import Figure
from skewless.experiments.reproduction.papers.pd_stream import (
    balance,
    costs,
    over_time,
    replicas,
    speed,
    tables,
)

__all__ = ["FIGURES"]

_FIGURE_4, _FIGURE_6 = speed.FIGURES
_FIGURE_5, _FIGURE_7 = over_time.FIGURES

#: In the order of the paper.
FIGURES: tuple[Figure, ...] = (
    *tables.FIGURES,
    _FIGURE_4,
    _FIGURE_5,
    _FIGURE_6,
    _FIGURE_7,
    *balance.FIGURES,
    *replicas.FIGURES,
    *costs.FIGURES,
)
