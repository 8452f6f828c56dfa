"""FISH, figures 14 to 16: what each part of it is for (section 6.4)."""

from __future__ import annotations

from skewless.experiments.reproduction.figure import Cell, Claim, Figure, Plot, Results, Size
from skewless.experiments.reproduction.papers.fish import streams, systems
from skewless.experiments.reproduction.papers.fish.overall import on_zf
from skewless.experiments.reproduction.papers.fish.settings import LIFETIME
from skewless.experiments.reproduction.papers.fish.systems import lines, ratios

_TIME = "execution_seconds"
_WHERE = "section 6.4, read from the text"


def _time(results: Results, curve: str, n_workers: int = 0) -> list[float]:
    """Return execution times over those of the whole FISH."""
    return ratios(results, _TIME, curve, "FISH", n_workers=n_workers)


FIGURE_14 = Figure(
    paper="fish",
    number="14",
    title="FISH with and without epochs",
    cells=lambda size: on_zf(size, "FISH", "FISH α 1", "Cascade"),
    claims=[
        Claim(
            "Counts over the whole past take up to 11.91 times as long",
            _WHERE,
            lambda results: max(_time(results, "FISH α 1")),
            11.91,
            "factor",
            above=1.05,
        ),
        Claim(
            "The effect grows with the workers",
            _WHERE,
            lambda results: (
                max(_time(results, "FISH α 1", -1)) / max(_time(results, "FISH α 1", 16))
            ),
            above=1.0,
        ),
        Claim(
            "The effect grows with the skew",
            _WHERE,
            lambda results: _time(results, "FISH α 1", -1)[-1] / _time(results, "FISH α 1", -1)[0],
            above=1.0,
        ),
    ],
    plots=[
        Plot(
            "skew z",
            "execution time / that with epochs",
            lambda results: lines(results, _TIME, ("FISH", "FISH α 1", "Cascade"), "FISH", "skew"),
        )
    ],
    data=streams.ABOUT_ZF,
    why=LIFETIME,
)

_CLASSIFIED = ("FISH", "FISH w/W-C", "FISH w/D-C", "Cascade")


def _by_classification(size: Size) -> dict[str, Cell]:
    most = streams.workers(size)[-1]
    skews = [streams.zf(size, z) for z in streams.skews(size)]
    return systems.grid(size, _CLASSIFIED, skews, sorted({max(most // 2, 16), most}))


def _saved(results: Results, n_workers: int) -> float:
    """Return the share of W-C's memory that CHK saves, at most."""
    if n_workers == 64:  # half of the most
        n_workers = min(n for _, n in systems.places(results, "FISH"))
    return max(
        1.0 - ratio
        for ratio in ratios(results, "replication", "FISH", "FISH w/W-C", n_workers=n_workers)
    )


FIGURE_15 = Figure(
    paper="fish",
    number="15",
    title="FISH with its own number of workers for a hot key, and with that of W-C and of D-C",
    cells=_by_classification,
    claims=[
        Claim(
            "CHK saves up to 25.23 % of the memory with 64 workers",
            _WHERE,
            lambda results: _saved(results, 64),
            0.2523,
            "factor",
            above=0.0,
        ),
        Claim(
            "CHK saves up to 45.34 % of the memory with 128 workers",
            _WHERE,
            lambda results: _saved(results, -1),
            0.4534,
            "factor",
            above=0.0,
        ),
        Claim(
            "It saves more with more workers",
            _WHERE,
            lambda results: _saved(results, -1) / _saved(results, 64),
            above=1.0,
        ),
        Claim(
            "With the d of D-C, memory is less than with CHK in some cases",
            _WHERE,
            lambda results: min(ratios(results, "replication", "FISH w/D-C", "FISH")),
            below=1.0,
        ),
        Claim(
            "With the d of D-C, it takes longer than with CHK in some cases",
            _WHERE,
            lambda results: max(_time(results, "FISH w/D-C")),
            above=1.0,
        ),
    ],
    plots=[
        Plot(
            "skew z",
            "replicas / those of CHK",
            lambda results: lines(results, "replication", _CLASSIFIED, "FISH", "skew"),
        ),
        Plot(
            "skew z",
            "execution time / that of CHK",
            lambda results: lines(results, _TIME, _CLASSIFIED, "FISH", "skew"),
        ),
    ],
    data=streams.ABOUT_ZF,
)

_ASSIGNED = ("FISH", "FISH w/o hwa", "Cascade")


def _unequal(size: Size) -> dict[str, Cell]:
    """Return cells in which every other worker is twice as fast as the rest."""
    cells: dict[str, Cell] = {}
    for n in streams.workers(size):
        skews = [streams.zf(size, z) for z in streams.skews(size)]
        cells |= systems.grid(size, _ASSIGNED, skews, [n], capacities=(1.0, 2.0) * (n // 2))
    return cells


FIGURE_16 = Figure(
    paper="fish",
    number="16",
    title="FISH with and without inferred waiting times; half of the workers are twice as fast",
    cells=_unequal,
    claims=[
        Claim(
            "By numbers of records, it takes up to 2.61 times as long",
            _WHERE,
            lambda results: max(_time(results, "FISH w/o hwa")),
            2.61,
            "factor",
            above=1.05,
        ),
        Claim(
            "By numbers of records, it takes longer in every case",
            _WHERE,
            lambda results: min(_time(results, "FISH w/o hwa")),
            above=1.0,
        ),
    ],
    plots=[
        Plot(
            "skew z",
            "execution time / that with inferred waiting times",
            lambda results: lines(results, _TIME, _ASSIGNED, "FISH", "skew"),
        )
    ],
    data=streams.ABOUT_ZF,
)

FIGURES = (FIGURE_14, FIGURE_15, FIGURE_16)
