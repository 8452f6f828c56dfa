"""Figures of Mixed (Fang et al.): plans of the moving family, and what they do to a stream.

Read `defaults` first: the settings of the paper. `grid` names cells and averages them. Figures
without a clock: `hash_skewness`, `plans`, `compacting`, `tables`; `planning` makes their plans.
Figures in virtual time: `throughput`, `scale_out`; `systems` and `timed` are what they run.
`fitting` makes streams in place of larger ones, or of data that cannot be had.
"""

from __future__ import annotations

from skewless.experiments.reproduction.figure import Figure
from skewless.experiments.reproduction.papers.mixed.compacting import FIGURE_11
from skewless.experiments.reproduction.papers.mixed.hash_skewness import FIGURE_7
from skewless.experiments.reproduction.papers.mixed.plans import (
    FIGURE_8,
    FIGURE_9,
    FIGURE_10,
    FIGURE_12,
)
from skewless.experiments.reproduction.papers.mixed.scale_out import FIGURE_15
from skewless.experiments.reproduction.papers.mixed.tables import (
    FIGURE_17,
    FIGURE_18,
    FIGURE_19,
    FIGURE_20,
    FIGURE_21,
)
from skewless.experiments.reproduction.papers.mixed.throughput import FIGURE_13, FIGURE_14

FIGURES: tuple[Figure, ...] = (
    FIGURE_7,
    FIGURE_8,
    FIGURE_9,
    FIGURE_10,
    FIGURE_11,
    FIGURE_12,
    FIGURE_13,
    FIGURE_14,
    FIGURE_15,
    FIGURE_17,
    FIGURE_18,
    FIGURE_19,
    FIGURE_20,
    FIGURE_21,
)
