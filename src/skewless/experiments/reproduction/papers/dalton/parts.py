"""Figures 11 and 12: what Dalton's parts bring, and the rate at which records arrive."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from skewless.experiments.reproduction.cells import Simulation
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
from skewless.experiments.reproduction.papers.dalton.pipeline import (
    EMIT,
    MERGE,
    SCORE,
    Pipeline,
    service,
)
from skewless.experiments.reproduction.papers.dalton.streams import (
    ELECTIONS,
    SYNTHETIC,
    T4SA,
    label,
    mean,
)
from skewless.experiments.reproduction.papers.dalton.systems import (
    cell,
    merging_of,
    settings_of,
    split_workers,
)

_PARALLELISM = 64
_TEXT = "section 5.3, read from the text"
_TAKEAWAY = "section 5.3, takeaway, read from the text"
_STREAMS_11 = {"T4SA": T4SA, "Elections": ELECTIONS, "Zipf": SYNTHETIC}
_VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "non-hybrid": {"hybrid": False},
    "no forwarding": {"forwarding": False},
    "dalton": {},
}


def _cells_11(size: Size) -> Mapping[str, Cell]:
    slide = streams.second(size)
    n_workers, reducers = split_workers(_PARALLELISM)
    cells: dict[str, Cell] = {}
    for seed in size.seeds:
        for name, stream in _STREAMS_11.items():
            of = streams.zipf_of(stream, size)
            for variant, more in _VARIANTS.items():
                settings = settings_of("dalton", slide=slide, n_slides=60, n_records=0)
                cells[label(variant, name, seed=seed)] = Pipeline(
                    "dalton",
                    "zipf",
                    settings={**settings, **more},
                    of=of,
                    n_workers=n_workers,
                    seed=seed,
                    slide=slide,
                    merging="split" if variant == "dalton" else "all",
                    reducers=reducers,
                    emit=EMIT + (n_workers * SCORE if variant == "non-hybrid" else 0.0),
                )
            cells[label("cascade", name, seed=seed)] = cell(
                "cascade", "zipf", of, parallelism=_PARALLELISM, slide=slide, seed=seed
            )
    return cells


def _speedup(variant: str, over: str, stream: str) -> Callable[[Results], float]:
    return lambda r: mean(r, "throughput", variant, stream) / mean(r, "throughput", over, stream)


def _curves_11(results: Results) -> Mapping[str, Points]:
    return {
        variant: [(name, mean(results, "throughput", variant, name)) for name in _STREAMS_11]
        for variant in (*_VARIANTS, "cascade")
    }


_RATES = (5_000, 20_000, 40_000)
_SYSTEMS_12 = ("hash", "shuffle", "pkg", "dagreedy", "dalton", "cascade")
_PARALLELISM_12 = (8, 64)


def _cells_12(size: Size) -> Mapping[str, Cell]:
    """Return timed simulations: records arrive at a rate, and the last stage is the merging."""
    slide = streams.second(size)
    of = streams.zipf_of(SYNTHETIC, size)
    cells: dict[str, Cell] = {}
    for seed in size.seeds:
        for parallelism in _PARALLELISM_12:
            for system in _SYSTEMS_12:
                merging = merging_of(system)
                n_workers, reducers = split_workers(parallelism)
                if merging == "none":
                    n_workers, reducers = parallelism, 1
                for rate in _RATES:
                    cells[label(system, parallelism, rate, seed=seed)] = Simulation(
                        system,
                        "zipf",
                        settings=settings_of(
                            system, slide=slide, n_slides=60, n_records=int(of["n_records"])
                        ),
                        of=of,
                        n_workers=n_workers,
                        seed=seed,
                        window=60 * slide,
                        timing={
                            "service": service(60),
                            "emit": EMIT,
                            "arrivals": "even",
                            "rate": float(rate),
                            # A window of the simulator ends once in 60 slides, with the results
                            # of as many; keys that are forwarded are not merged.
                            "merge": 60 * MERGE if merging == "all" else 0.0,
                            "reducers": reducers,
                            "unmerged": 1 if merging == "all" else 0,
                            "queue": 1_000,
                        },
                    )
    return cells


def _sustained(results: Results, system: str, parallelism: int, rate: int) -> float:
    return mean(results, "throughput", system, parallelism, rate)


def _gain(rate: int, results: Results) -> float:
    """Return what more workers bring at a rate, on average over the algorithms."""
    few, many = _PARALLELISM_12
    return float(
        np.mean(
            [
                _sustained(results, system, many, rate) / _sustained(results, system, few, rate)
                for system in _SYSTEMS_12[:-1]
            ]
        )
    )


def _curves_12(results: Results) -> Mapping[str, Points]:
    return {
        f"{system}, {parallelism} workers": [
            (rate, _sustained(results, system, parallelism, rate)) for rate in _RATES
        ]
        for system in _SYSTEMS_12
        for parallelism in _PARALLELISM_12
    }


FIGURES = (
    Figure(
        "dalton",
        "11",
        "What hot keys alone in the bandit, and key forwarding, bring",
        _cells_11,
        (
            Claim(
                "the bandit for hot keys alone brings 1.2 on average",
                _TEXT,
                lambda r: float(
                    np.mean([_speedup("no forwarding", "non-hybrid", s)(r) for s in _STREAMS_11])
                ),
                published=1.2,
                counts="factor",
                above=1.0,
            ),
            Claim(
                "key forwarding brings 3 on T4SA (what a partial result costs was fitted to this)",
                _TEXT,
                _speedup("dalton", "no forwarding", "T4SA"),
                published=3.0,
                counts="factor",
                above=1.0,
            ),
            Claim(
                "key forwarding brings most on T4SA: against the other streams",
                _TEXT,
                lambda r: (
                    _speedup("dalton", "no forwarding", "T4SA")(r)
                    / max(_speedup("dalton", "no forwarding", s)(r) for s in ("Elections", "Zipf"))
                ),
                above=1.0,
            ),
            Claim(
                "both together bring up to 2.7",
                _TAKEAWAY,
                lambda r: max(_speedup("dalton", "non-hybrid", s)(r) for s in _STREAMS_11),
                published=2.7,
                counts="factor",
                above=1.0,
            ),
        ),
        (Plot("stream", "records per second", _curves_11),),
        streams.DATA,
    ),
    Figure(
        "dalton",
        "12",
        "Throughput by the rate at which records arrive",
        _cells_12,
        (
            Claim(
                "no algorithm sustains 40,000 records per second: the best of them",
                _TEXT,
                lambda r: max(
                    _sustained(r, s, p, 40_000) for s in _SYSTEMS_12[:-1] for p in _PARALLELISM_12
                ),
                published=40_000.0,
                counts="at most",
                below=40_000.0,
            ),
            Claim(
                "more workers matter less at low rates: gain at 5,000 against that at 40,000",
                _TEXT,
                lambda r: _gain(5_000, r) / _gain(40_000, r),
                below=1.0,
            ),
        ),
        (Plot("records per second that arrive", "records per second", _curves_12),),
        streams.DATA + " The paper does not say which stream it is; here it is Zipf 1.5.",
    ),
)
