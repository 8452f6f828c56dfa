"""FISH, figures 12 and 13: which α and which θ (section 6.3)."""

from __future__ import annotations

from skewless.experiments.reproduction.figure import Claim, Figure, Plot, Results
from skewless.experiments.reproduction.papers.fish import streams
from skewless.experiments.reproduction.papers.fish.overall import on_zf
from skewless.experiments.reproduction.papers.fish.systems import lines, ratios

_TIME = "execution_seconds"
_WHERE = "section 6.3, read from the text"
_ALPHAS = ("FISH α 0", "FISH", "FISH α 0.5", "FISH α 0.8", "FISH α 1")
_THETAS = ("FISH θ 2/n", "FISH θ 1/n", "FISH θ 1/2n", "FISH", "FISH θ 1/8n")
_LOW_SKEW = "z 1.0"

# Why FISH without fading is less bad than published; figure 14 shows the same.
LIFETIME = (
    "Without fading, the hottest key of the reversed part is hot after a small part of it. But "
    "the hottest key before it has several times its count, so Alg. 2 gives it n/4 workers or "
    "fewer. That takes longer than with fading. A factor of 12 would need that the key is never "
    "found, and more: see the evidence of figure 10"
)


def _time(results: Results, curve: str) -> list[float]:
    """Return execution times over those of FISH as it is."""
    return ratios(results, _TIME, curve, "FISH")


def _memory(results: Results, curve: str, n_workers: int = 0, stream: str = "") -> list[float]:
    """Return replicas over those of FISH as it is."""
    return ratios(results, "replication", curve, "FISH", n_workers=n_workers, stream=stream)


FIGURE_12 = Figure(
    paper="fish",
    number="12",
    title="Execution time and memory by the factor α with which counts fade",
    cells=lambda size: on_zf(size, *_ALPHAS, "Cascade"),
    claims=[
        Claim(
            "Without fading (α = 1), it takes up to 12.14 times as long as with α = 0.2",
            _WHERE,
            lambda results: max(_time(results, "FISH α 1")),
            12.14,
            "factor",
            above=1.05,
        ),
        Claim(
            "A larger α takes longer: α = 1 longer than 0.8",
            _WHERE,
            lambda results: max(_time(results, "FISH α 1")) / max(_time(results, "FISH α 0.8")),
            above=1.0,
        ),
        Claim(
            "With α = 0, the execution time is low",
            _WHERE,
            lambda results: max(_time(results, "FISH α 0")),
            below=1.05,
        ),
        Claim(
            "With α = 0, it needs 2.65 times the memory, at low skew",
            _WHERE,
            lambda results: max(_memory(results, "FISH α 0", -1, _LOW_SKEW)),
            2.65,
            "factor",
            above=1.0,
        ),
    ],
    plots=[
        Plot(
            "skew z",
            "execution time / that of α = 0.2",
            lambda results: lines(results, _TIME, (*_ALPHAS, "Cascade"), "FISH", "skew"),
        ),
        Plot(
            "skew z",
            "replicas / those of α = 0.2",
            lambda results: lines(results, "replication", (*_ALPHAS, "Cascade"), "FISH", "skew"),
        ),
    ],
    data=streams.ABOUT_ZF,
    why=LIFETIME,
)

FIGURE_13 = Figure(
    paper="fish",
    number="13",
    title="Execution time and memory by the threshold θ of hot keys",
    cells=lambda size: on_zf(size, *_THETAS, "Cascade"),
    claims=[
        Claim(
            "Only θ = 2/n leads to a significant load imbalance",
            _WHERE,
            lambda results: max(_time(results, "FISH θ 2/n")),
            above=1.05,
        ),
        Claim(
            "θ = 1/(8n) takes about as long as 1/(4n)",
            _WHERE,
            lambda results: max(_time(results, "FISH θ 1/8n")),
            1.0,
            "value",
        ),
        Claim(
            "θ = 1/(2n) takes about as long as 1/(4n)",
            _WHERE,
            lambda results: max(_time(results, "FISH θ 1/2n")),
            1.0,
            "value",
        ),
        Claim(
            "θ = 1/(8n) needs more memory than 1/(4n) with many workers and low skew",
            _WHERE,
            lambda results: _memory(results, "FISH θ 1/8n", -1, _LOW_SKEW)[0],
            above=1.0,
        ),
        Claim(
            "θ = 1/(4n) needs almost the memory of 2/n",
            _WHERE,
            lambda results: 1.0 / min(_memory(results, "FISH θ 2/n")),
            1.0,
            "value",
            below=2.0,
        ),
    ],
    plots=[
        Plot(
            "skew z",
            "execution time / that of θ = 1/(4n)",
            lambda results: lines(results, _TIME, (*_THETAS, "Cascade"), "FISH", "skew"),
        ),
        Plot(
            "skew z",
            "replicas / those of θ = 1/(4n)",
            lambda results: lines(results, "replication", (*_THETAS, "Cascade"), "FISH", "skew"),
        ),
    ],
    data=streams.ABOUT_ZF,
    why=(
        "Memory: a shorter stream has fewer keys, so the replicas of the hot ones are a larger "
        "part of all, and θ decides how many are hot"
    ),
)

FIGURES = (FIGURE_12, FIGURE_13)
