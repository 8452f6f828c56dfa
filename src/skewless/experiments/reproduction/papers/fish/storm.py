"""FISH, figures 18 to 20: latency, throughput and memory on Storm (section 6.6).

The topology has 32 sources and 128 workers. The authors state no times and no limits, so these are
chosen. A record takes a worker 0.4 ms: the hottest key alone then holds FG near the published
throughput. The sources can just keep all workers busy, and each has at most 16 records under way,
as Storm limits the pending ones. The factors depend on these choices: figure 19 shows one other.
"""

from __future__ import annotations

from collections.abc import Mapping

from skewless.experiments.reproduction.figure import (
    Cell,
    Claim,
    Figure,
    Plot,
    Points,
    Results,
    Size,
)
from skewless.experiments.reproduction.papers.fish import streams, systems
from skewless.experiments.reproduction.papers.fish.motivation import TIMING
from skewless.experiments.reproduction.papers.fish.overall import on_zf
from skewless.experiments.reproduction.papers.fish.systems import (
    lines,
    mean,
    on_streams,
    places,
    ratios,
)

_CURVES = ("FG", "PKG", "D-C", "W-C", "SG", "FISH", "Cascade")
_WHERE = "section 6.6, read from the text"
_SOURCES, _WORKERS = 32, 128
_FISH_MS = (("MT", 7, 562), ("AM", 9, 640))  # published: median and 99th percentile
_SERVICE = 4e-4
_TIMING = {"service": _SERVICE, "emit": _SERVICE * _SOURCES / _WORKERS, "pending": 16}
_SLOW_SOURCES = _TIMING | {"emit": _SERVICE}
_ONE_SOURCE = _TIMING | {"emit": _SERVICE / _WORKERS, "pending": 16 * _SOURCES}  # as fast as all


def _cells(size: Size) -> dict[str, Cell]:
    n_workers = min(_WORKERS, size.workers)
    data = streams.on_storm(size)
    return systems.grid(size, _CURVES, data, [n_workers], timing=_TIMING, n_sources=_SOURCES)


def _cells_18(size: Size) -> dict[str, Cell]:
    """Return the same cells, and those of figure 2, where hot keys change more often."""
    often = [streams.am(size)._replace(label="often")]
    workers = [min(_WORKERS, size.workers)]
    return _cells(size) | systems.grid(size, ("W-C", "FISH"), often, workers, timing=TIMING)


def _cells_19(size: Size) -> dict[str, Cell]:
    """Return the same cells, some with sources too slow for the workers, some with one source."""
    slow = [streams.on_storm(size)[0]._replace(label="slow")]
    one = [streams.on_storm(size)[1]._replace(label="one")]
    workers = [min(_WORKERS, size.workers)]
    return (
        _cells(size)
        | systems.grid(
            size, ("W-C", "FISH"), slow, workers, timing=_SLOW_SOURCES, n_sources=_SOURCES
        )
        | systems.grid(size, ("FG",), one, workers, timing=_ONE_SOURCE)
    )


def _storm(results: Results) -> Results:
    """Return the results without those that serve as evidence."""
    return on_streams(results, "MT", "AM")


def _saved(results: Results, column: str) -> float:
    """Return the share of W-C's latency that FISH saves, at most."""
    return 1.0 - min(ratios(_storm(results), column, "FISH", "W-C"))


def _tail(results: Results, stream: str) -> float:
    """Return FISH's 99th percentile over its median."""
    n_workers = max(n for _, n in places(results, "FISH"))
    p99, p50 = (mean(results, f"latency_{p}", "FISH", stream, n_workers) for p in ("p99", "p50"))
    return p99 / p50


def _percentiles(results: Results) -> Mapping[str, Points]:
    return {
        f"{curve}, {stream}": [
            (share, 1e3 * mean(results, f"latency_{share}", curve, stream, n))
            for share in ("mean", "p50", "p95", "p99")
        ]
        for curve in _CURVES
        for stream, n in places(_storm(results), curve)
    }


def _tail_claim(data: str, p50: int, p99: int) -> Claim:
    return Claim(
        f"FISH's 99th percentile is {p99} ms, {p99 / p50:.0f} times its median, on {data}",
        _WHERE,
        lambda results: _tail(results, data),
        p99 / p50,
        "factor",
        above=1.0,
    )


def _below_claim(curve: str) -> Claim:
    return Claim(
        f"FISH has a lower 99th percentile than {curve}",
        _WHERE,
        lambda results: max(ratios(_storm(results), "latency_p99", "FISH", curve)),
        below=1.0,
    )


FIGURE_18 = Figure(
    paper="fish",
    number="18",
    title="Latency on Storm",
    cells=_cells_18,
    claims=[
        Claim(
            "FISH reduces the mean latency of W-C by 87.12 %",
            _WHERE,
            lambda results: _saved(results, "latency_mean"),
            0.8712,
            "value",
            above=0.02,
        ),
        Claim(
            "FISH reduces the 99th percentile of W-C by 76.34 %",
            _WHERE,
            lambda results: _saved(results, "latency_p99"),
            0.7634,
            "value",
            above=0.02,
        ),
        *(_tail_claim(data, p50, p99) for data, p50, p99 in _FISH_MS),
        *(_below_claim(curve) for curve in ("FG", "PKG", "D-C")),
    ],
    plots=[
        Plot(
            "of records",
            "latency, ms",
            _percentiles,
            {f"FISH, {data}": [("p50", p50), ("p99", p99)] for data, p50, p99 in _FISH_MS},
            log_y=True,
        )
    ],
    data=streams.ABOUT_STORM,
    why=(
        "Hot keys change ten times here, and W-C finds them after a small part of a period. Where "
        "they change 200 times, FISH saves a larger share of W-C's latency (evidence). FISH's own "
        "tail is short because workers of a simulation have no pauses"
    ),
    evidence=[
        Claim(
            "On the stream and by the clock of figure 2, the share of W-C's mean latency that FISH "
            "saves is larger, by so much",
            "ours, from cells of figure 2",
            lambda results: (
                1.0
                - ratios(on_streams(results, "often"), "latency_mean", "FISH", "W-C")[0]
                - _saved(results, "latency_mean")
            ),
            above=0.1,
        ),
        Claim(
            "There, FISH saves most of W-C's 99th percentile",
            "ours, from cells of figure 2",
            lambda results: (
                1.0 - ratios(on_streams(results, "often"), "latency_p99", "FISH", "W-C")[0]
            ),
            above=0.5,
        ),
    ],
)


def _rate(results: Results, curve: str, stream: str) -> float:
    """Return the throughput of a scheme on a stream."""
    ((_, n),) = [place for place in places(results, curve) if place[0] == stream]
    return mean(results, "throughput", curve, stream, n)


def _rates(results: Results, curve: str, base: str) -> list[float]:
    """Return the throughput of one scheme over that of another, on both streams."""
    return ratios(_storm(results), "throughput", curve, base)


def _throughput(results: Results) -> Mapping[str, Points]:
    return {
        curve: [
            (stream, mean(results, "throughput", curve, stream, n) / 1e3)
            for stream, n in places(_storm(results), curve)
        ]
        for curve in _CURVES
    }


FIGURE_19 = Figure(
    paper="fish",
    number="19",
    title="Throughput on Storm",
    cells=_cells_19,
    claims=[
        Claim(
            "FG processes 30,000 records per second of MT (which chose the time of a record)",
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
            lambda results: min(_rates(results, "PKG", "FG")),
            above=1.0,
        ),
        Claim(
            "W-C has a higher throughput than PKG",
            _WHERE,
            lambda results: min(_rates(results, "W-C", "PKG")),
            above=1.0,
        ),
        Claim(
            "FISH has 1.32 times the throughput of W-C",
            _WHERE,
            lambda results: max(_rates(results, "FISH", "W-C")),
            1.32,
            "value",
            above=1.02,
        ),
        Claim(
            "FISH has 1.48 times the throughput of D-C",
            _WHERE,
            lambda results: max(_rates(results, "FISH", "D-C")),
            1.48,
            "value",
            above=1.02,
        ),
        Claim(
            "FISH has almost the throughput of SG",
            _WHERE,
            lambda results: min(_rates(results, "FISH", "SG")),
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
    why=(
        "Sources that are ahead of others are in the next period, where another worker has the "
        "hottest key. In a short stream with 32 sources, two or three such workers are busy at the "
        "same time, so FG processes more than the hottest key allows; one source shows it (first "
        "evidence). W-C: hot keys change ten times here, and it finds them after a small part of a "
        "period. With 200 changes it falls behind by more than published (figure 9)"
    ),
    evidence=[
        Claim(
            "With one source, as fast as the 32, FG processes fewer records per second of AM",
            "ours, from the cells of this figure",
            lambda results: _rate(results, "FG", "one") / _rate(results, "FG", "AM"),
            below=0.9,
        ),
        Claim(
            "With sources so slow that workers wait for them, W-C is nearly as fast as FISH",
            "ours, from the cells of this figure",
            lambda results: ratios(on_streams(results, "slow"), "throughput", "FISH", "W-C")[0],
            below=1.05,
        ),
    ],
)


def _cells_20(size: Size) -> dict[str, Cell]:
    """Return the cells of all skews, and those of a quarter of the stream at the lowest skew."""
    quarter = streams.zf(size._replace(records=size.records // 4), 1.0)._replace(label="quarter")
    return on_zf(size, "SG", "FISH", "Cascade") | systems.grid(
        size, ("SG", "FISH"), [quarter], streams.workers(size)[-1:]
    )


def _share_of_sg(results: Results, stream: str = "") -> list[float]:
    """Return the replicas of FISH over those of SG, with the most workers."""
    return ratios(results, "replication", "FISH", "SG", stream=stream, n_workers=-1)


FIGURE_20 = Figure(
    paper="fish",
    number="20",
    title="Memory of FISH relative to SG",
    cells=_cells_20,
    claims=[
        Claim(
            "FISH needs 3.34 % of the memory of SG at skew 1.0",
            _WHERE,
            lambda results: _share_of_sg(results, "z 1.0")[0],
            0.0334,
            "factor",
            below=1.0,
        ),
        Claim(
            "FISH needs less than 16 % of the memory of SG at any skew",
            _WHERE,
            lambda results: max(_share_of_sg(on_streams(results, "z"))),
            0.16,
            "at most",
            below=1.0,
        ),
    ],
    plots=[
        Plot(
            "skew z",
            "replicas / those of SG",
            lambda results: lines(
                on_streams(results, "z"), "replication", ("FISH", "Cascade"), "SG", "skew"
            ),
            {"FISH": [(1.0, 0.0334)]},
        )
    ],
    data=streams.ABOUT_ZF,
    why=(
        "The stream is shorter than the published one. It has fewer records of each key, so SG has "
        "fewer replicas, while FISH splits as many hot keys. The longer the stream, the lower the "
        "share (evidence)"
    ),
    evidence=[
        Claim(
            "In a quarter of the stream, FISH's share of the memory of SG is higher",
            "ours, from the cells of this figure",
            lambda results: _share_of_sg(results, "quarter")[0] / _share_of_sg(results, "z 1.0")[0],
            above=1.0,
        )
    ],
)

FIGURES = (FIGURE_18, FIGURE_19, FIGURE_20)
