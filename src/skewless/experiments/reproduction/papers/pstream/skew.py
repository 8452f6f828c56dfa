"""PStream's Figures 3, 5 and 6: what skew does to shuffling and hashing, in counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from skewless import workloads
from skewless.experiments.reproduction.figure import Cell, Claim, Figure, Plot, Results, Size
from skewless.experiments.reproduction.papers.pstream.reading import (
    curves,
    growth,
    last_ratio,
    pairs,
)
from skewless.experiments.reproduction.papers.pstream.streams import (
    STAND_IN,
    SYNTHETIC,
    TRACES,
    levels,
    routed,
    stand_in,
    synthetic,
)
from skewless.experiments.tables import Row

_SECTION = "section 1, {}, read from the text"
_PARTS = (0.01, 0.03, 0.08, 0.2, 0.24, 0.5)
_OF_FIGURE_5 = ("TW", "ST", "orders", "TX")
_INSTANCES = 180
_OF_FIGURE_6 = ("hash", "pstream", "cascade")
_OF_FIGURE_3 = ("shuffle", "hash", "pstream", "cascade")
_TIMES = (0.25, 0.5, 1.0)


# Figure 3


def _cells_of_3(size: Size) -> Mapping[str, Cell]:
    cells: dict[str, Cell] = {}
    of = synthetic(1.0, size)
    for n in levels(size):
        for strategy in _OF_FIGURE_3:
            cells[f"{strategy} {n}"] = routed(strategy, of, n, size)
        cells[f"shuffle-ST {n}"] = routed("shuffle", stand_in("ST", size), n, size)
    most = levels(size)[-1]
    for part in _TIMES:
        earlier = {**of, "n_records": round(part * of["n_records"])}
        cells[f"shuffle-after {part}"] = routed("shuffle", earlier, most, size)
    return cells


_FIGURE_3 = Figure(
    "pstream",
    "3",
    "Memory of all workers, in counters that they keep, by parallelism",
    _cells_of_3,
    claims=[
        Claim(
            "with shuffle grouping, memory grows with the parallelism",
            _SECTION.format("Fig. 3"),
            growth("shuffle", pairs),
            above=1.1,
        ),
        Claim(
            "with key grouping it does not: one counter per key",
            _SECTION.format("O(N)"),
            growth("hash", pairs),
            1.0,
            "value",
        ),
        Claim(
            "with shuffle grouping, memory grows with time",
            _SECTION.format("Fig. 3"),
            growth("shuffle-after", pairs),
            above=1.1,
        ),
        Claim(
            "shuffle grouping takes more memory than key grouping",
            _SECTION.format("Fig. 3"),
            last_ratio("shuffle", "hash", pairs),
            above=1.1,
        ),
    ],
    plots=[
        Plot("workers", "pairs of key and worker", curves(_OF_FIGURE_3, pairs)),
        Plot("part of the stream", "pairs of key and worker", curves(["shuffle-after"], pairs)),
    ],
    data=f"{SYNTHETIC}, z = 1.0. Pairs of a key and a worker stand in for bytes of heap.",
    evidence=[
        Claim(
            "where keys have many records each (NASDAQ's stand-in), memory grows several times "
            "faster than on a stream of mostly rare keys",
            "our measurement",
            lambda results: (
                growth("shuffle-ST", pairs)(results) / growth("shuffle", pairs)(results)
            ),
            above=1.0,
        )
    ],
)


# Figure 5


@dataclass(frozen=True)
class TopShares:
    """Which part of the records of a trace's stand-in the most frequent keys have."""

    z: float
    n_keys: int
    n_records: int
    seed: int = 1

    def run(self) -> Row:
        """Draw the stream, and return the share of each part of the keys."""
        stream = workloads.Zipf(z=self.z, n_keys=self.n_keys, n_records=self.n_records)
        counts = dict.fromkeys(_PARTS, 0)
        for ranks in stream.ranks(self.seed):
            for part in _PARTS:
                counts[part] += int((ranks <= round(part * self.n_keys)).sum())
        return {f"top {part}": count / self.n_records for part, count in counts.items()}


def _cells_of_5(size: Size) -> Mapping[str, Cell]:
    cells: dict[str, Cell] = {name: TopShares(**stand_in(name, size)) for name in _OF_FIGURE_5}
    for name in _OF_FIGURE_5:
        for strategy in ("hash", "cascade"):
            cells[f"{strategy} {name}"] = routed(strategy, stand_in(name, size), 128, size)
    return cells


def _claim_of_5(name: str) -> Claim:
    trace = TRACES[name]
    return Claim(
        f"{trace.title}: {trace.top:.0%} of the keys have {trace.share:.0%} of the records",
        _SECTION.format("Fig. 5"),
        lambda results: float(results[name][f"top {trace.top}"]),
        trace.share,
        "value",
        above=trace.top,
    )


def _imbalances(results: Results) -> Mapping[str, list[tuple[str, float]]]:
    return {
        strategy: [(name, results[f"{strategy} {name}"]["imbalance"]) for name in _OF_FIGURE_5]
        for strategy in ("hash", "cascade")
    }


_FIGURE_5 = Figure(
    "pstream",
    "5",
    "Skew of the data sets",
    _cells_of_5,
    claims=[_claim_of_5(name) for name in _OF_FIGURE_5],
    plots=[
        Plot(
            "part of the keys, the most frequent first",
            "part of the records",
            lambda results: {
                name: [(part, results[name][f"top {part}"]) for part in _PARTS]
                for name in _OF_FIGURE_5
            },
            {TRACES[name].title: [(TRACES[name].top, 0.8)] for name in _OF_FIGURE_5},
        ),
        Plot("stream", "imbalance", _imbalances, log_y=True),
    ],
    data=f"{STAND_IN}. So this figure shows that the stand-ins of the other figures are as skewed "
    "as the traces, and what hashing and Cascade make of them; it is no test of the traces.",
)


# Figure 6


def _cells_of_6(size: Size) -> Mapping[str, Cell]:
    of = stand_in("TW", size)
    return {strategy: routed(strategy, of, _INSTANCES, size) for strategy in _OF_FIGURE_6}


def _peak(row: Row) -> float:
    return float(np.max(row["loads"]) / np.mean(row["loads"]))


def _spread(row: Row) -> float:
    """Return the load of the median worker, in parts of the largest."""
    return float(np.median(row["loads"]) / np.max(row["loads"]))


def _sorted_loads(results: Results) -> Mapping[str, list[tuple[int, float]]]:
    found = {}
    for strategy in _OF_FIGURE_6:
        loads = np.sort(results[strategy]["loads"])[::-1] / np.mean(results[strategy]["loads"])
        found[strategy] = list(enumerate(loads.tolist(), start=1))
    return found


_FIGURE_6 = Figure(
    "pstream",
    "6",
    "Loads of the workers under key grouping, 180 of them in the paper",
    _cells_of_6,
    claims=[
        Claim(
            "with key grouping, the loads of the workers are highly skewed: the largest is a "
            "multiple of the mean",
            _SECTION.format("Fig. 6"),
            lambda results: _peak(results["hash"]),
            above=2.0,
        ),
        Claim(
            "with key grouping, half of the workers have less than half of the largest load",
            _SECTION.format("Fig. 6"),
            lambda results: _spread(results["hash"]),
            below=0.5,
        ),
    ],
    plots=[Plot("worker, by load", "load / mean", _sorted_loads)],
    data=f"{STAND_IN}: words of tweets. Loads are over the whole stream instead of every second.",
    evidence=[
        Claim(
            "with PStream, the largest load is closer to the mean",
            "our measurement",
            lambda results: _peak(results["pstream"]) / _peak(results["hash"]),
            below=1.0,
        )
    ],
)

FIGURES = (_FIGURE_3, _FIGURE_5, _FIGURE_6)
