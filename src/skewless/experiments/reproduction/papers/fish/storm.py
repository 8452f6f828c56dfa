"""FISH, figures 18 to 20: latency, throughput and memory on Storm (section 6.6).

The topology has 32 sources and 128 workers. A record takes a worker 0.25 ms, and a source as long:
with that, the hottest key alone keeps FG near the published 30,000 records per second. A source
has at most 32 records under way, as Storm limits the pending ones; the authors state no limit.
"""

from __future__ import annotations

from collections.abc import Mapping

from skewless.experiments.reproduction.figure import Cell, Claim, Figure, Plot, Points, Results, Size
from skewless.experiments.reproduction.papers.fish import streams, systems
from skewless.experiments.reproduction.papers.fish.overall import on_zf
from skewless.experiments.reproduction.papers.fish.systems import lines, mean, places, ratios

_CURVES = ("FG", "PKG", "D-C", "W-C", "SG", "FISH", "Cascade")
_WHERE = "section 6.6, read from the text"
_SOURCES, _WORKERS = 32, 128
_SERVICE = 2.5e-4
_TIMING = {"service": _SERVICE, "emit": _SERVICE, "pending": 32}


def _cells(size: Size) -> dict[str, Cell]:
    n_workers = min(_WORKERS, size.workers)
    data = streams.on_storm(size)
    return systems.grid(size, _CURVES, data, [n_workers], timing=_TIMING, n_sources=_SOURCES)


def _saved(results: Results, column: str) -> float:
    """Return the share of W-C's latency that FISH saves, at most."""
    return 1.0 - min(ratios(results, column, "FISH", "W-C"))


def _percentiles(results: Results) -> Mapping[str, Points]:
    return {
        f"{curve}, {stream}": [
            (share, 1e3 * mean(results, f"latency_{share}", curve, stream, n))
            for share in ("mean", "p50", "p95", "p99")
        ]
        for curve in _CURVES
        for stream, n in places(results, curve)
    }


FIGURE_18 = Figure(
    paper="fish",
    number="18",
    title="Latency on Storm",
    cells=_cells,
    claims=[
        Claim(
            "FISH reduces the mean latency of W-C by 87.12 %",
            _WHERE,
            lambda results: _saved(results, "latency_mean"),
            0.8712,
            "value",
            above=0.0,
        ),
        Claim(
            "FISH reduces the 99th percentile of W-C by 76.34 %",
            _WHERE,
            lambda results: _saved(results, "latency_p99"),
            0.7634,
            "value",
            above=0.0,
        ),
        *(
            Claim(
                f"FISH has a lower 99th percentile than {curve}",
                _WHERE,
                lambda results, curve=curve: max(ratios(results, "latency_p99", "FISH", curve)),
                below=1.0,
            )
            for curve in ("FG", "PKG", "D-C")
        ),
    ],
    plots=[
        Plot(
            "of records",
            "latency, ms",
            _percentiles,
            {"FISH, MT": [("p50", 7.0), ("p99", 562.0)], "FISH, AM": [("p50", 9.0), ("p99", 640.0)]},
            log_y=True,
        )
    ],
    data=streams.ABOUT_STORM,
)


def _rate(results: Results, curve: str, stream: str) -> float:
    """Return the throughput of a scheme on a stream."""
    ((_, n),) = [place for place in places(results, curve) if place[0] == stream]
    return mean(results, "throughput", curve, stream, n)


def _throughput(results: Results) -> Mapping[str, Points]:
    return {
        curve: [(stream, mean(results, "throughput", curve, stream, n) / 1e3)
                for stream, n in places(results, curve)]
        for curve in _CURVES
    }


FIGURE_19 = Figure(
    paper="fish",
    number="19",
    title="Throughput on Storm",
    cells=_cells,
    claims=[
        Claim(
            "FG processes 30,000 records per second of MT",
            _WHERE,
            lambda results: _rate(results, "FG", "MT"),
            30_000,
            "factor",
        ),
        Claim(
            "FG processes 23,000 records per second of AM",
            _WHERE,
            lambda results: _rate(results, "FG", "AM"),
            23_000,
            "factor",
        ),
        Claim(
            "PKG has a higher throughput than FG",
            _WHERE,
            lambda results: min(ratios(results, "throughput", "PKG", "FG")),
            above=1.0,
        ),
        Claim(
            "W-C has a higher throughput than PKG",
            _WHERE,
            lambda results: min(ratios(results, "throughput", "W-C", "PKG")),
            above=1.0,
        ),
        Claim(
            "FISH has 1.32 times the throughput of W-C",
            _WHERE,
            lambda results: max(ratios(results, "throughput", "FISH", "W-C")),
            1.32,
            "factor",
            above=1.0,
        ),
        Claim(
            "FISH has 1.48 times the throughput of D-C",
            _WHERE,
            lambda results: max(ratios(results, "throughput", "FISH", "D-C")),
            1.48,
            "factor",
            above=1.0,
        ),
        Claim(
            "FISH has almost the throughput of SG",
            _WHERE,
            lambda results: min(ratios(results, "throughput", "FISH", "SG")),
            1.0,
            "value",
        ),
    ],
    plots=[
        Plot(
            "data set",
            "1,000 records / s",
            _throughput,
            {"FG": [("MT", 30.0), ("AM", 23.0)]},
        )
    ],
    data=streams.ABOUT_STORM,
)

FIGURE_20 = Figure(
    paper="fish",
    number="20",
    title="Memory of FISH relative to SG",
    cells=lambda size: on_zf(size, "SG", "FISH", "Cascade"),
    claims=[
        Claim(
            "FISH needs 3.34 % of the memory of SG at skew 1.0",
            _WHERE,
            lambda results: ratios(
                results, "replication", "FISH", "SG", stream="z 1.0", n_workers=-1
            )[0],
            0.0334,
            "factor",
            below=1.0,
        ),
        Claim(
            "FISH needs less than 16 % of the memory of SG at any skew",
            _WHERE,
            lambda results: max(ratios(results, "replication", "FISH", "SG", n_workers=-1)),
            0.16,
            "at most",
            below=1.0,
        ),
    ],
    plots=[
        Plot(
            "skew z",
            "replicas / those of SG",
            lambda results: lines(results, "replication", ("FISH", "Cascade"), "SG", "skew"),
            {"FISH": [(1.0, 0.0334)]},
        )
    ],
    data=streams.ABOUT_ZF,
)

FIGURES = (FIGURE_18, FIGURE_19, FIGURE_20)
