"""Figure 15: how soon one partitioner, or several together, have learned."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from skewless.experiments.reproduction.figure import (
    Cell,
    Claim,
    Figure,
    Plot,
    Points,
    Results,
    Size,
)
from skewless.experiments.reproduction.papers.dalton.partitioners import (
    DATA,
    N_KEYS,
    PARALLELISM,
    RECORDS_PER_SECOND,
    SLIDE_SECONDS,
    SLIDES,
    SYNCS_PER_SLIDE,
    WINDOW_SLIDES,
    slide_of,
)
from skewless.experiments.reproduction.papers.dalton.pipeline import service
from skewless.experiments.reproduction.papers.dalton.streams import label, series
from skewless.experiments.reproduction.papers.dalton.systems import cell

_PARTITIONERS = (1, 2, 4, 8)
_FINER = 4  # parts of a slide, to see when learning has converged


def _cells_15(size: Size) -> Mapping[str, Cell]:
    """Return the cells of one stream that more and more partitioners share.

    Record i goes to partitioner i mod p, and every other record is Zipf: half of the partitioners
    see a uniform stream, and one alone sees both in turn.
    """
    slide = slide_of(size) // _FINER
    n_slides = _FINER * WINDOW_SLIDES
    sync = slide * _FINER // SYNCS_PER_SLIDE
    n_keys = max(1_000, N_KEYS * slide * _FINER // (SLIDE_SECONDS * RECORDS_PER_SECOND))
    of = {
        "exponents": (0.0, 1.5),
        "n_keys": n_keys,
        "n_records": SLIDES * slide * _FINER,
        "heavy_hitters": "same",
    }
    return {
        label(system, n_sources, seed=seed): cell(
            system,
            "per-source",
            of,
            parallelism=PARALLELISM,
            slide=slide,
            n_slides=n_slides,
            seed=seed,
            n_sources=n_sources,
            sync=sync if system == "dalton" and n_sources > 1 else 0,
            service=service(WINDOW_SLIDES),
        )
        for seed in size.seeds
        for n_sources in _PARTITIONERS
        for system in ("dalton", "cascade")
    }


def _final(results: Results, n_sources: int, column: str = "slide_load_difference") -> float:
    """Return the mean over the last quarter of the run, of Dalton."""
    values = series(results, column, "dalton", n_sources)
    return float(np.mean(values[-len(values) // 4 :]))


def _converged(results: Results, n_sources: int) -> float:
    """Return after how many slides a window is nearly as balanced as it will be.

    The imbalance of the window is first below 1.2 times its final value, after the window was full.
    """
    values = series(results, "slide_load_difference", "dalton", n_sources)
    full = _FINER * WINDOW_SLIDES
    final = _final(results, n_sources)
    later = [i for i, value in enumerate(values) if i >= full and value <= 1.2 * final]
    return float(later[0] if later else len(values))


_TEXT_15 = "section 5.4, figure 15, read from the text"


def _curves_15(column: str, results: Results) -> Mapping[str, Points]:
    return {
        f"{system}, {n} partitioner{'s' * (n > 1)}": list(
            enumerate(series(results, column, system, n))
        )
        for system in ("dalton", "cascade")
        for n in _PARTITIONERS
    }


FIGURES = (
    Figure(
        "dalton",
        "15",
        "Convergence of one to eight partitioners",
        _cells_15,
        (
            Claim(
                "two partitioners are hardly less balanced than one: ratio of equation 1",
                _TEXT_15,
                lambda r: _final(r, 2) / _final(r, 1),
                published=1.0,
                counts="factor",
            ),
            Claim(
                "more partitioners do not make it worse: eight against two",
                _TEXT_15,
                lambda r: _final(r, 8) / _final(r, 2),
                published=1.0,
                counts="at most",
            ),
            Claim(
                "one partitioner converges sooner than two: ratio of slides",
                _TEXT_15,
                lambda r: _converged(r, 1) / _converged(r, 2),
                below=1.0,
            ),
            Claim(
                "the rate of convergence does not depend on how many there are: eight against two",
                _TEXT_15,
                lambda r: _converged(r, 8) / _converged(r, 2),
                published=1.0,
                counts="factor",
            ),
            Claim(
                "the aggregation cost of the top key does not grow: workers with eight against one",
                _TEXT_15,
                lambda r: _final(r, 8, "slide_watched_width") / _final(r, 1, "slide_watched_width"),
                published=1.0,
                counts="factor",
            ),
        ),
        (
            Plot(
                "parts of a slide", "max − mean load", partial(_curves_15, "slide_load_difference")
            ),
            Plot(
                "parts of a slide",
                "workers of the top key",
                partial(_curves_15, "slide_watched_width"),
            ),
        ),
        DATA.format(what="every other record of a uniform stream, the others of Zipf 1.5"),
        why=(
            "Our exchange adds up the rewards of all partitioners where the paper averages their "
            "tables (docs/strategies/dalton.md), so that several learn as fast as one alone. Which "
            "of them is first is then a matter of the seed."
        ),
        evidence=(
            Claim(
                "several partitioners converge as fast as one: slides of eight against one",
                "the same cells",
                lambda r: _converged(r, 8) / _converged(r, 1),
                published=1.0,
                counts="factor",
            ),
        ),
    ),
)
