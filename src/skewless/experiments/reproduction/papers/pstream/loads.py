"""PStream's Figure 28: how evenly PStream, PKG and DKG load the workers."""

from __future__ import annotations

from collections.abc import Mapping

from skewless.experiments.reproduction.figure import Cell, Claim, Figure, Plot, Results, Size
from skewless.experiments.reproduction.papers.pstream.reading import load_stddev, ratio
from skewless.experiments.reproduction.papers.pstream.streams import (
    SATURATED,
    STAND_IN,
    TRACES,
    routed,
    stand_in,
)

_INSTANCES = 128
_STRATEGIES = ("dkg", "pkg", "pstream", "cascade")
_TRACES = ("ST", "HA")
#: By how much PStream reduces the standard deviation, by application and scheme.
_REDUCED = {("ST", "dkg"): 0.16, ("HA", "dkg"): 0.25, ("ST", "pkg"): 0.49, ("HA", "pkg"): 0.40}


def _cells(size: Size) -> Mapping[str, Cell]:
    return {
        f"{strategy} {name}": routed(
            strategy, stand_in(name, size), _INSTANCES, size, timing=SATURATED
        )
        for name in _TRACES
        for strategy in _STRATEGIES
    }


def _curves(results: Results) -> Mapping[str, list[tuple[str, float]]]:
    return {
        strategy: [(name, load_stddev(results[f"{strategy} {name}"])) for name in _TRACES]
        for strategy in _STRATEGIES
    }


_FIGURE_28 = Figure(
    "pstream",
    "28",
    "Standard deviation of the loads of the workers",
    _cells,
    claims=[
        Claim(
            f"{TRACES[name].title}: PStream reduces the standard deviation of {scheme.upper()} by "
            f"{reduced:.0%}, to {1 - reduced:.0%}",
            "section 6.2, Fig. 28, read from the text",
            ratio(f"pstream {name}", f"{scheme} {name}", load_stddev),
            1 - reduced,
            "factor",
            below=1.0,
        )
        for (name, scheme), reduced in _REDUCED.items()
    ],
    plots=[Plot("stream", "standard deviation / mean", _curves)],
    data=f"{STAND_IN}: NASDAQ records and hashtags. Loads are over the whole stream.",
    why="DKG keeps each key on one worker. On the streams that stand in, the most frequent key "
    "has several times the fair share of one of 128 workers, so DKG is far less even than in the "
    "paper, where it is more even than PKG.",
    evidence=[
        Claim(
            f"{TRACES[name].title}: DKG's standard deviation is above that of PKG",
            "our measurement",
            lambda results, name=name: (  # type: ignore[misc]
                load_stddev(results[f"dkg {name}"]) / load_stddev(results[f"pkg {name}"])
            ),
            above=1.0,
        )
        for name in _TRACES
    ],
)

FIGURES = (_FIGURE_28,)
