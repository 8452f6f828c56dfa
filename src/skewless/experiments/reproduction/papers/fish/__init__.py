"""FISH: figures 2 to 4 and 9 to 20 of Huang, "Efficient time-evolving stream processing at scale".

`streams` has the data, `systems` what is compared and its clock. The figures are in `motivation`
(2–4), `overall` (9–11), `settings` (12, 13), `parts` (14–16), `workers_change` (17) and `storm`
(18–20).
"""

from __future__ import annotations

from skewless.experiments.reproduction.figure import Figure
from skewless.experiments.reproduction.papers.fish import (
    motivation,
    overall,
    parts,
    settings,
    storm,
    workers_change,
)

FIGURES: tuple[Figure, ...] = (
    *motivation.FIGURES,
    *overall.FIGURES,
    *settings.FIGURES,
    *parts.FIGURES,
    *workers_change.FIGURES,
    *storm.FIGURES,
)
