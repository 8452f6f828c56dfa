"""Figures 1 and 13: several partitioners, each with a stream of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from skewless.experiments.reproduction.figure import (
    Cell,
    Claim,
    Figure,
    Plot,
    Points,
    Results,
    Size,
)
from skewless.experiments.reproduction.papers.dalton import streams
from skewless.experiments.reproduction.papers.dalton.pipeline import MERGE, Pipeline, service
from skewless.experiments.reproduction.papers.dalton.streams import label, mean
from skewless.experiments.reproduction.papers.dalton.systems import SYSTEMS, cell, existing

PARALLELISM = 64  # the paper does not say; these are the most that it has
_FEWER_WORKERS = 32  # how far a claim depends on that
SLIDE_SECONDS = 20
WINDOW_SLIDES = streams.WINDOW_SECONDS // SLIDE_SECONDS
SLIDES = 40  # of a stream
N_KEYS = 1_000_000  # the most of Table 2, for which reducers matter at these rates
_FEWER_KEYS = 100_000  # the fewest of Table 2: the partitioner, not the reducers, is the bottleneck
#: Records per second that the combiners can take: with longer slides, they do less for each.
RECORDS_PER_SECOND = 400_000
#: Every half slide, which is the interval that the adaptive protocol finds (section 5.4).
SYNCS_PER_SLIDE = 2
DATA = (
    "Generated, as in the paper: {what}. The window has 60 seconds and slides by 20. In smaller "
    "sizes, a key and a record stand for several, also at the reducers."
)
_UNIFORM, _MIXED, _SKEWED = (0.0, 0.0), (0.0, 1.5), (1.5, 1.5)


def slide_of(size: Size) -> int:
    """Return the records of a slide of 20 seconds: the paper's, or fewer in a smaller size."""
    size = streams.longer(size, 4)
    return min(SLIDE_SECONDS * RECORDS_PER_SECOND, size.records // SLIDES)


def pipeline(
    system: str,
    exponents: tuple[float, ...],
    size: Size,
    *,
    n_sources: int,
    seed: int,
    heavy_hitters: str = "different",
    parallelism: int = PARALLELISM,
    **more: Any,
) -> Pipeline:
    """Return the cell of a system with this many partitioners; Dalton's share what they learn."""
    slide = slide_of(size)
    n_keys = max(1_000, N_KEYS * slide // (SLIDE_SECONDS * RECORDS_PER_SECOND))
    sync = slide // SYNCS_PER_SLIDE if system == "dalton" and n_sources > 1 else 0
    return cell(
        system,
        "per-source",
        {
            "exponents": exponents,
            "n_keys": n_keys,
            "n_records": SLIDES * slide,
            "heavy_hitters": heavy_hitters,
        },
        parallelism=parallelism,
        slide=slide,
        n_slides=WINDOW_SLIDES,
        seed=seed,
        n_sources=n_sources,
        **{
            "sync": sync,
            "service": service(WINDOW_SLIDES),
            **more,
        },
    )


def _cells_1(size: Size) -> Mapping[str, Cell]:
    return {
        label(system, n_sources, phase, seed=seed): pipeline(
            system,
            exponents,
            size,
            n_sources=n_sources,
            seed=seed,
            merge=MERGE * _FEWER_KEYS / N_KEYS,
        )
        for seed in size.seeds
        for phase, exponents in (("uniform", _UNIFORM), ("skewed", _MIXED))
        for n_sources in (1, 2)
        for system in ("hash", "pkg", "dagreedy", "dalton", "cascade")
    }


def _gain(system: str, phase: str) -> Callable[[Results], float]:
    """Return what a second partitioner brings: throughput with two over that with one."""
    return lambda r: (
        mean(r, "throughput", system, 2, phase) / mean(r, "throughput", system, 1, phase)
    )


def _curves_1(results: Results) -> Mapping[str, Points]:
    """Return the three phases of the figure, one after the other."""
    phases = ((1, "uniform"), (2, "uniform"), (2, "skewed"))
    return {
        system: [
            (
                f"{n} partitioner{'s' * (n > 1)}, {phase}",
                mean(results, "throughput", system, n, phase),
            )
            for n, phase in phases
        ]
        for system in ("hash", "pkg", "dagreedy", "dalton", "cascade")
    }


def _cells_13(exponents: tuple[float, ...], size: Size) -> Mapping[str, Cell]:
    cells: dict[str, Cell] = {}
    for seed in size.seeds:
        for system in SYSTEMS:
            cells[label(system, seed=seed)] = pipeline(
                system, exponents, size, n_sources=2, seed=seed
            )
        for system in ("dagreedy", "dalton"):
            cells[label("fewer workers:", system, seed=seed)] = pipeline(
                system, exponents, size, n_sources=2, seed=seed, parallelism=_FEWER_WORKERS
            )
    return cells


def _against(others: list[str], which: Callable[..., float]) -> Callable[[Results], float]:
    return lambda r: (
        mean(r, "throughput", "dalton") / which(mean(r, "throughput", other) for other in others)
    )


_TEXT_13 = "section 5.4, figure 13, read from the text"
_RANGE_13 = (
    Claim(
        "Dalton is at least 1.4 times as fast as any existing approach",
        _TEXT_13,
        _against(existing(SYSTEMS), max),
        published=1.4,
        counts="factor",
        above=1.0,
    ),
    Claim(
        "Dalton is up to 3.4 times as fast as existing approaches",
        _TEXT_13,
        _against(existing(SYSTEMS), min),
        published=3.4,
        counts="factor",
        above=1.0,
    ),
)


_DAGREEDY_BALANCED = Claim(
    "DAGreedy's busiest worker has less than that of Dalton and of hashing: the larger ratio",
    "the same cells",
    lambda r: max(
        (1 + mean(r, "imbalance", "dagreedy")) / (1 + mean(r, "imbalance", other))
        for other in ("dalton", "hash")
    ),
    below=1.0,
)
_DAGREEDY_SLOW = Claim(
    "DAGreedy's partitioners are slower than its combiners",
    "the same cells",
    lambda r: mean(r, "partitioner_limit", "dagreedy") / mean(r, "combiner_limit", "dagreedy"),
    below=1.0,
)


def _bars(results: Results) -> Mapping[str, Points]:
    return {"throughput": [(system, mean(results, "throughput", system)) for system in SYSTEMS]}


FIGURES_1: tuple[Figure, ...] = (
    Figure(
        "dalton",
        "1",
        "Throughput when a second partitioner is added, and when one stream becomes skewed",
        _cells_1,
        (
            Claim(
                "one partitioner is the bottleneck: hashing gains by a second one",
                "section 1, figure 1, read from the text",
                _gain("hash", "uniform"),
                above=1.0,
            ),
            Claim(
                "two choices gain by a second partitioner",
                "section 1, figure 1, read from the text",
                _gain("pkg", "uniform"),
                above=1.0,
            ),
            Claim(
                "static strategies cannot handle the skew: hashing against uniform streams",
                "section 1, figure 1, read from the text",
                lambda r: (
                    mean(r, "throughput", "hash", 2, "skewed")
                    / mean(r, "throughput", "hash", 2, "uniform")
                ),
                below=1.0,
            ),
            Claim(
                "while one stream is skewed, DAGreedy gains nothing by a second partitioner",
                "section 1, figure 1, read from the text",
                _gain("dagreedy", "skewed"),
                published=1.0,
                counts="at most",
            ),
        ),
        (Plot("phase", "records per second", _curves_1),),
        DATA.format(what="two uniform streams, of which one then becomes Zipf 1.5"),
        why=(
            "DAGreedy's partitioners know nothing of each other, but each balances its own "
            "records, and so the sum is balanced too. A second one halves the time for scores."
        ),
        evidence=(
            Claim(
                "DAGreedy is balanced as well with two partitioners as with one: largest loads",
                "the same cells",
                lambda r: (
                    (1 + mean(r, "imbalance", "dagreedy", 2, "skewed"))
                    / (1 + mean(r, "imbalance", "dagreedy", 1, "skewed"))
                ),
                published=1.0,
                counts="at most",
            ),
            Claim(
                "one DAGreedy partitioner is slower than the combiners behind it",
                "the same cells",
                lambda r: (
                    mean(r, "partitioner_limit", "dagreedy", 1, "skewed")
                    / mean(r, "combiner_limit", "dagreedy", 1, "skewed")
                ),
                below=1.0,
            ),
        ),
    ),
)

FIGURES_13 = (
    Figure(
        "dalton",
        "13a",
        "Throughput of two partitioners, one with a uniform and one with a Zipf stream",
        partial(_cells_13, _MIXED),
        (
            *_RANGE_13,
            Claim(
                "hashing outperforms DAGreedy",
                _TEXT_13,
                lambda r: mean(r, "throughput", "hash") / mean(r, "throughput", "dagreedy"),
                above=1.0,
            ),
        ),
        (Plot("system", "records per second", _bars),),
        DATA.format(what="a uniform stream and Zipf 1.5"),
        why=(
            "Half of the records are Zipf 1.5, so that under hashing one worker has a fifth of "
            "all. DAGreedy's partitioners balance their own records each, and so the sum."
        ),
        evidence=(_DAGREEDY_BALANCED,),
    ),
    Figure(
        "dalton",
        "13b",
        "Throughput of two partitioners whose Zipf streams have different hot keys",
        partial(_cells_13, _SKEWED),
        (
            *_RANGE_13,
            Claim(
                "DAGreedy outperforms hashing",
                _TEXT_13,
                lambda r: mean(r, "throughput", "dagreedy") / mean(r, "throughput", "hash"),
                above=1.0,
            ),
        ),
        (Plot("system", "records per second", _bars),),
        DATA.format(what="two streams Zipf 1.5 with different hot keys"),
        why=(
            "DAGreedy, as we read it, is balanced better than Dalton. It is behind only where the "
            "scores, one per worker and record, limit its partitioners; so the claim depends on "
            "the number of workers, which the paper does not give, and on what a score costs."
        ),
        evidence=(
            _DAGREEDY_BALANCED,
            _DAGREEDY_SLOW,
            Claim(
                f"with {_FEWER_WORKERS} workers, Dalton is behind DAGreedy",
                "further cells",
                lambda r: (
                    mean(r, "throughput", "fewer workers:", "dalton")
                    / mean(r, "throughput", "fewer workers:", "dagreedy")
                ),
                below=1.0,
            ),
        ),
    ),
)
