"""Figures 5 and 7: latency and throughput over time, in the virtual time of `speed`."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np

from skewless.experiments.reproduction.cells import Simulation
from skewless.experiments.reproduction.figure import Cell, Claim, Figure, Plot, Results, Size
from skewless.experiments.reproduction.papers.pd_stream.speed import (
    DATA,
    OTHERS,
    TIMING,
    milliseconds,
)
from skewless.experiments.reproduction.papers.pd_stream.streams import (
    DS,
    HT,
    REAL,
    SOURCES,
    STRATEGIES,
    column_of,
    label,
    real,
    runs,
)

_DRIFTING = "drifting"
_N_PERIODS = 8

_DRIFT_DATA = (
    f"{DATA} The hot keys of real streams change, and these figures are about time: the stream "
    "gets other hot keys eight times, all at once."
)


def _drifting_cells(size: Size) -> Mapping[str, Cell]:
    # For the evidence, the steady streams of Figures 4 and 6.
    cells = runs(size, ["pkg", "w-choices", "dagreedy", "pd-stream"], REAL, [128], timing=TIMING)
    for stream in REAL:
        of = real(stream, size.records)
        z = of.pop("z")
        of.update(z_min=z, z_max=z, period=max(1, of["n_records"] // _N_PERIODS))
        for strategy in STRATEGIES:
            for seed in size.seeds:
                cells[label(strategy, stream.name, 128, seed, _DRIFTING)] = Simulation(
                    strategy,
                    "shifting-zipf",
                    of=of,
                    n_workers=min(128, size.workers),
                    n_sources=SOURCES,
                    seed=seed,
                    window=min(10_000, of["n_records"] // _N_PERIODS),
                    timing=TIMING,
                )
    return cells


def _over_time(results: Results, strategy: str, stream: str, note: str = _DRIFTING) -> list[float]:
    """Return the throughput of each window but the first, before which nothing was merged."""
    rates = column_of(results, strategy, stream, 128, "window_throughput", note)
    return [float(np.mean(window)) for window in zip(*rates, strict=True)][1:]


def _variation(results: Results, strategy: str, stream: str, note: str = _DRIFTING) -> float:
    """Return the standard deviation over time, relative to the mean."""
    rates = _over_time(results, strategy, stream, note)
    return float(np.std(rates) / np.mean(rates))


def _less_stable(results: Results, other: str, stream: str) -> float:
    """Return the variation of another strategy relative to that of Pd-Stream."""
    return _variation(results, other, stream) / _variation(results, "pd-stream", stream)


def _ahead(results: Results, other: str, stream: str, note: str = _DRIFTING) -> float:
    """Return the part of the windows in which Pd-Stream is faster."""
    both = (_over_time(results, name, stream, note) for name in ("pd-stream", other))
    pairs = zip(*both, strict=True)
    return float(np.mean([ours > others for ours, others in pairs]))


def _latency_over_time(results: Results, strategy: str, stream: str) -> list[float]:
    return [milliseconds(rate) for rate in _over_time(results, strategy, stream)]


_TEXT_5 = "section VI-B, read from the text; Fig. 5"
FIGURE_5 = Figure(
    "pd-stream",
    "5",
    "Latency over time on the streams of Table V, with 128 workers",
    _drifting_cells,
    [
        *(
            Claim(
                f"The latency of Pd-Stream on {stream.name} is below that of {name}: the part of "
                "the windows in which it is",
                _TEXT_5,
                functools.partial(_ahead, other=other, stream=stream.name),
                1.0,
                "at least",
                above=0.5,
            )
            for stream in REAL
            for other, name in OTHERS
        ),
        *(
            Claim(
                f"The latency of Pd-Stream on {stream.name} stays around {published} ms: its "
                "largest value relative to the mean",
                _TEXT_5,
                functools.partial(
                    lambda results, name: (
                        max(_latency_over_time(results, "pd-stream", name))
                        / float(np.mean(_latency_over_time(results, "pd-stream", name)))
                    ),
                    name=stream.name,
                ),
                below=1.2,
            )
            for stream, published in ((DS, 26), (HT, 28))
        ),
    ],
    [
        Plot(
            "window",
            f"mean latency in ms, {stream.name}",
            functools.partial(
                lambda results, name: {
                    strategy: list(enumerate(_latency_over_time(results, strategy, name), start=2))
                    for strategy in STRATEGIES
                },
                name=stream.name,
            ),
            log_y=True,
        )
        for stream in REAL
    ],
    _DRIFT_DATA,
)

_TEXT_7 = "section VI-C, read from the text; Fig. 7"
FIGURE_7 = Figure(
    "pd-stream",
    "7",
    "Throughput over time on the streams of Table V, with 128 workers",
    _drifting_cells,
    [
        *(
            Claim(
                f"Pd-Stream always has the highest throughput on {stream.name}: the part of the "
                f"windows in which it is above {name}",
                _TEXT_7,
                functools.partial(_ahead, other=other, stream=stream.name),
                1.0,
                "at least",
                above=0.5,
            )
            for stream in REAL
            for other, name in OTHERS
        ),
        *(
            Claim(
                f"{name} is less stable than Pd-Stream on {stream.name}: variation over time, as a "
                "ratio",
                _TEXT_7,
                functools.partial(_less_stable, other=other, stream=stream.name),
                above=1.0,
            )
            for stream in REAL
            for other, name in OTHERS
            if name != "W-Choices"
        ),
        Claim(
            "The throughput on HT is a little below that on DS: the ratio",
            _TEXT_7,
            lambda results: (
                float(np.mean(_over_time(results, "pd-stream", "HT")))
                / float(np.mean(_over_time(results, "pd-stream", "DS")))
            ),
            2_400 / 2_500,
            "factor",
            below=1.0,
        ),
    ],
    [
        Plot(
            "window",
            f"records per second, {stream.name}",
            functools.partial(
                lambda results, name: {
                    strategy: list(enumerate(_over_time(results, strategy, name), start=2))
                    for strategy in STRATEGIES
                },
                name=stream.name,
            ),
        )
        for stream in REAL
    ],
    _DRIFT_DATA,
    "All is reproduced on a stream whose hot keys change. How large the differences are depends on "
    "that: the evidence has the same for a stream that stays as it is.",
    [
        *(
            Claim(
                f"On a steady stream like {stream.name}, the part of the windows in which "
                f"Pd-Stream is above {name}",
                "ours",
                functools.partial(_ahead, other=other, stream=stream.name, note=""),
                above=0.5,
            )
            for stream in REAL
            for other, name in OTHERS
        ),
        *(
            Claim(
                f"On a steady stream like {stream.name}, the variation of {name} less that of "
                "Pd-Stream",
                "ours",
                functools.partial(
                    lambda results, other, stream: (
                        _variation(results, other, stream, "")
                        - _variation(results, "pd-stream", stream, "")
                    ),
                    other=other,
                    stream=stream.name,
                ),
                above=0.0,
            )
            for stream in REAL
            for other, name in OTHERS
            if name != "W-Choices"
        ),
    ],
)

FIGURES = (FIGURE_5, FIGURE_7)
