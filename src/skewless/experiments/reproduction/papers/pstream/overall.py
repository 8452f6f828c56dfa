"""PStream's Figures 2b and 14–17: skew, throughput and latency at one parallelism level."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from skewless.experiments.reproduction.figure import (
    Cell,
    Claim,
    Figure,
    Plot,
    Points,
    Results,
    Size,
    column,
)
from skewless.experiments.reproduction.papers.pstream.aggregation import Aggregation
from skewless.experiments.reproduction.papers.pstream.reading import (
    curves,
    growth,
    mean_ratio,
    ratio,
)
from skewless.experiments.reproduction.papers.pstream.streams import (
    MERGING,
    REDUCERS,
    SATURATED,
    SEEDS,
    SERVICE,
    STAND_IN,
    SYNTHETIC,
    merge_window,
    merged,
    routed,
    stand_in,
    synthetic,
)

throughput = column("throughput")
latency = column("latency_mean")
_EXPONENTS = (0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
_INSTANCES = 128
_OF_SKEW = 64
_LATENCY = (
    " A source has at most 4,096 records under way. As in the paper, latencies are means over "
    "10,000 consecutive records."
)


# Figures 2b and 15


def _by_exponent(strategies: tuple[str, ...], size: Size) -> Mapping[str, Cell]:
    return {
        f"{strategy} {z}": merged(strategy, synthetic(z, size), _OF_SKEW, size)
        for strategy in strategies
        for z in _EXPONENTS
    }


_OF_2B = ("hash", "shuffle", "cascade")
_FIGURE_2B = Figure(
    "pstream",
    "2b",
    "Throughput of shuffle and key grouping by skew, 64 workers",
    lambda size: _by_exponent(_OF_2B, size),
    claims=[
        Claim(
            "the throughput of key grouping falls significantly with skew",
            "section 1, Fig. 2b, read from the text",
            growth("hash", throughput),
            below=0.5,
        ),
        Claim(
            "that of shuffle grouping is much more stable",
            "section 1, Fig. 2b, read from the text",
            lambda results: (
                growth("shuffle", throughput)(results) / growth("hash", throughput)(results)
            ),
            above=2.0,
        ),
    ],
    plots=[Plot("Zipf exponent", "records per second", curves(_OF_2B, throughput))],
    data=SYNTHETIC + "." + MERGING,
)

_OF_15 = ("hash", "dkg", "pkg", "pstream", "cascade")
_FIGURE_15 = Figure(
    "pstream",
    "15",
    "Throughput of PStream, key grouping, DKG and PKG by skew, 64 workers",
    lambda size: _by_exponent(_OF_15, size),
    claims=[
        *(
            Claim(
                f"the throughput of {name} falls sharply with skew",
                "section 6.2, Fig. 15, read from the text",
                growth(strategy, throughput),
                below=0.5,
            )
            for strategy, name in (("hash", "key grouping"), ("dkg", "DKG"), ("pkg", "PKG"))
        ),
        *(
            Claim(
                f"that of PStream is more stable than that of {name}",
                "section 6.2, Fig. 15, read from the text",
                lambda results, strategy=strategy: (  # type: ignore[misc]
                    growth("pstream", throughput)(results) / growth(strategy, throughput)(results)
                ),
                above=2.0,
            )
            for strategy, name in (("hash", "key grouping"), ("dkg", "DKG"), ("pkg", "PKG"))
        ),
    ],
    plots=[Plot("Zipf exponent", "records per second", curves(_OF_15, throughput))],
    data=SYNTHETIC + "." + MERGING,
)


# Figure 14

_PLACE_14 = "section 6.2, Fig. 14, read from the text"
_OF_14 = ("pstream", "shuffle", "hash", "cascade")


def _cells_of_14(size: Size) -> Mapping[str, Cell]:
    of = synthetic(1.0, size)
    cells: dict[str, Cell] = {}
    for strategy in _OF_14:
        cells[f"{strategy} 1"] = routed(strategy, of, _INSTANCES, size, timing=SATURATED)
        cells[f"merging-{strategy}"] = Aggregation(
            strategy,
            "zipf",
            of,
            n_workers=min(_INSTANCES, size.workers),
            window=merge_window(of),
            forwarding=strategy != "shuffle",
            merge=SERVICE,
            reducers=REDUCERS,
        )
    return cells


def _latencies(results: Results, strategy: str) -> list[float]:
    """Return the mean latency of each window of all seeds, with merging where that is counted."""
    merging = results.get(f"merging-{strategy}")
    more = float(merging["merge_seconds"]) if merging else 0.0
    windows = [
        seconds
        for label, row in results.items()
        if label.startswith(strategy + " ")
        for seconds in row["window_latency_mean"]
    ]
    return [more + seconds for seconds in windows]


def _part_within(strategy: str, part: float) -> Callable[[Results], float]:
    """Return what reads the part of a strategy that is as fast as this part of PStream."""

    def read(results: Results) -> float:
        limit = float(np.quantile(_latencies(results, "pstream"), part))
        return float(np.mean(np.array(_latencies(results, strategy)) <= limit))

    return read


def _distributions(strategies: tuple[str, ...]) -> Callable[[Results], Mapping[str, Points]]:
    def draw(results: Results) -> Mapping[str, Points]:
        found = {}
        for strategy in strategies:
            seconds = np.sort(_latencies(results, strategy))
            parts = np.arange(1, seconds.size + 1) / seconds.size
            found[strategy] = list(zip(seconds.tolist(), parts.tolist(), strict=True))
        return found

    return draw


def _fewer(strategy: str, name: str, part: float, theirs: float, place: str) -> Claim:
    return Claim(
        f"in the time in which {part:.0%} of PStream are processed, {theirs:.0%} of {name} are",
        place,
        _part_within(strategy, part),
        theirs,
        "value",
        below=part,
    )


_SAME_STREAM = (
    "The stream does not change, so all windows of one strategy have nearly the same mean "
    "latency, and the curves hardly overlap; in the paper they do."
)

_FIGURE_14 = Figure(
    "pstream",
    "14",
    "Latency of PStream, shuffle and key grouping",
    _cells_of_14,
    claims=[
        _fewer("hash", "key grouping", 0.72, 0.61, "section 6.2, Fig. 14, read from the text"),
        _fewer(
            "shuffle", "shuffle grouping", 0.72, 0.19, "section 6.2, Fig. 14, read from the text"
        ),
        Claim(
            "aggregation takes shuffle grouping about 300 ms per record in the mean, and PStream "
            "70 ms",
            _PLACE_14,
            ratio("merging-shuffle", "merging-pstream", column("merge_seconds")),
            300 / 70,
            "factor",
            above=1.0,
        ),
    ],
    plots=[Plot("seconds", "part of the windows", _distributions(_OF_14))],
    data=f"{SYNTHETIC}, z = 1.0." + _LATENCY + MERGING,
    why=_SAME_STREAM,
    evidence=[
        Claim(
            f"the mean latency of {name}, with merging, is above that of PStream",
            "our measurement",
            lambda results, strategy=strategy: (  # type: ignore[misc]
                float(np.mean(_latencies(results, strategy)))
                / float(np.mean(_latencies(results, "pstream")))
            ),
            above=1.0,
        )
        for strategy, name in (("hash", "key grouping"), ("shuffle", "shuffle grouping"))
    ],
)


# Figures 16 and 17

_OF_16 = ("pstream", "pkg", "dkg", "cascade")


def _cells_of_16(size: Size) -> Mapping[str, Cell]:
    of = stand_in("TW", size)
    return {
        f"{strategy} {seed}": routed(strategy, of, _INSTANCES, size, timing=SATURATED, seed=seed)
        for strategy in _OF_16
        for seed in SEEDS
    }


def _over_time(results: Results) -> Mapping[str, Points]:
    """Return the throughput by window, for the first seed."""
    return {s: list(enumerate(results[f"{s} 1"]["window_throughput"], start=1)) for s in _OF_16}


_FIGURE_16 = Figure(
    "pstream",
    "16",
    "Throughput of PStream, PKG and DKG in word count, 128 workers",
    _cells_of_16,
    claims=[
        Claim(
            f"PStream's throughput is {times} times that of {strategy.upper()}",
            "section 6.2, Fig. 16, read from the text",
            mean_ratio("pstream", strategy, throughput),
            times,
            "factor",
            above=1.0,
        )
        for strategy, times in (("pkg", 2.3), ("dkg", 3.6))
    ],
    plots=[Plot("window", "records per second", _over_time)],
    data=f"{STAND_IN}: words of tweets. Means over six seeds.",
)

_PLACE_17 = "section 6.2, Fig. 17, read from the text"
_FIGURE_17 = Figure(
    "pstream",
    "17",
    "Latency of PStream, PKG and DKG in word count, 128 workers",
    _cells_of_16,
    claims=[
        *(
            Claim(
                f"the mean latency of {strategy.upper()} is {theirs / 114:.2f} times that of "
                f"PStream ({theirs} ms and 114 ms)",
                _PLACE_17,
                mean_ratio(strategy, "pstream", latency),
                theirs / 114,
                "factor",
                above=1.0,
            )
            for strategy, theirs in (("pkg", 322), ("dkg", 336))
        ),
        _fewer("pkg", "PKG", 0.90, 0.63, _PLACE_17),
        _fewer("dkg", "DKG", 0.90, 0.45, _PLACE_17),
    ],
    plots=[Plot("seconds", "part of the windows", _distributions(_OF_16))],
    data=f"{STAND_IN}: words of tweets, six seeds." + _LATENCY,
    why=_SAME_STREAM,
)

FIGURES_OF_MOTIVATION = (_FIGURE_2B,)
FIGURES = (_FIGURE_14, _FIGURE_15, _FIGURE_16, _FIGURE_17)
