"""Figures 10 and 11: the replication factor, on synthetic streams and on those of Table V.

Two factors near 1 look alike whatever they mean, so the claims compare replicas beyond one per
key: RF − 1.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from skewless import registry, workloads
from skewless.experiments.reproduction.figure import Cell, Claim, Figure, Plot, Results, Size
from skewless.experiments.reproduction.papers.pd_stream.streams import (
    DS,
    EXPONENTS,
    HT,
    REAL,
    REAL_DATA,
    SOURCES,
    STRATEGIES,
    SYNTHETIC_DATA,
    WORKERS,
    against_skew,
    against_workers,
    mean,
    real,
    runs,
    synthetic,
)
from skewless.experiments.tables import Row

_LONG = "over the published length"
_LOW_THRESHOLD = "with a low threshold"
_ONE_SOURCE = "with one source"
_FEW_PLACES = "with few places"
#: A hot key of W-Choices has more than this share of a worker's load; 0.2 in its own paper. Fitted
#: to one published number, the replication with z = 2.0 and 128 workers, so that number tells
#: nothing about it.
LOW_THRESHOLD = 1 / 750


@dataclass(frozen=True)
class ColdReplicas:
    """Which part of the replicas beyond one per key belongs to keys that are never hot.

    A key counts as cold with fewer than `cold_share` of all records. Its row has `cold_part`, and
    the replication of all keys.
    """

    strategy: str
    of: Mapping[str, Any]  # parameters of the workload `zipf`
    n_workers: int
    n_sources: int
    seed: int
    cold_share: float = 3e-5

    def run(self) -> Row:
        """Route the stream, and count the workers of each key."""
        keys = np.concatenate(list(workloads.make("zipf", **self.of).chunks(self.seed)))
        strategy = registry.make(self.strategy)
        workers = np.empty(keys.size, np.int32)
        for source in range(self.n_sources):
            share = np.ascontiguousarray(keys[source :: self.n_sources])
            out = np.empty(share.size, np.int32)
            strategy.route(share, strategy.start(self.n_workers, self.seed, source=source), out)
            workers[source :: self.n_sources] = out
        _, index, counts = np.unique(keys, return_inverse=True, return_counts=True)
        pairs = np.unique(index.astype(np.int64) * self.n_workers + workers)
        beyond_one = np.bincount(pairs // self.n_workers) - 1
        cold = counts < max(3.0, self.cold_share * keys.size)
        return {
            "strategy": self.strategy,
            "workers": self.n_workers,
            "replication": float(pairs.size / counts.size),
            "cold_part": float(beyond_one[cold].sum() / max(1, beyond_one.sum())),
        }


def _beyond_one(
    results: Results, strategy: str, stream: str | float, n_workers: int, note: str = ""
) -> float:
    return mean(results, strategy, stream, n_workers, "replication", note) - 1


def _cold_part(results: Results, stream: str | float) -> float:
    return float(results[f"cold replicas {stream} n=16"]["cold_part"])


def _cold(stream: str | float, of: Mapping[str, Any], size: Size) -> dict[str, Cell]:
    return {
        f"cold replicas {stream} n=16": ColdReplicas(
            "pd-stream", of, min(16, size.workers), SOURCES, size.seeds[0]
        )
    }


def _stated(strategy: str, name: str, z: float, n: int, published: float, note: str) -> Claim:
    return Claim(
        f"{name} has a replication of {published} with z = {z} and {n} workers: beyond one per key",
        "section VI-E, read from the text; Fig. 10",
        functools.partial(_beyond_one, strategy=strategy, stream=z, n_workers=n, note=note),
        published - 1,
        "factor",
        above=0.0,
        **({"below": 1.0} if strategy == "pd-stream" else {}),
    )


def _synthetic_cells(size: Size) -> Mapping[str, Cell]:
    long = functools.partial(runs, size, note=_LONG, long=True)
    return {
        **runs(size, STRATEGIES, EXPONENTS),
        **long(["pd-stream"], [1.4, 1.8], [64]),
        **long(["pd-stream", "w-choices", "dagreedy", "pkg"], [2.0], [128]),
        **runs(size, ["dagreedy", "pkg"], [2.0], [128], note=_ONE_SOURCE, long=True, n_sources=1),
        **runs(
            size,
            ["w-choices"],
            [2.0],
            [128],
            note=_LOW_THRESHOLD,
            long=True,
            settings={"hot_factor": LOW_THRESHOLD},
        ),
        **runs(
            size,
            ["w-choices"],
            [2.0],
            [128],
            note=_FEW_PLACES,
            long=True,
            settings={"capacity": 50},
        ),
        **_cold(1.2, synthetic(1.2, size.records), size),
    }


#: What the text states about Pd-Stream: exponent, workers, replication, and which cell tells.
_STATED = (
    (1.2, 16, 1.05, ""),
    (1.4, 64, 1.19, _LONG),
    (1.8, 64, 1.35, _LONG),
    (2.0, 128, 1.74, _LONG),
)

FIGURE_10 = Figure(
    "pd-stream",
    "10",
    "Replication factor on Zipf streams, by exponent and number of workers",
    _synthetic_cells,
    [
        *(_stated("pd-stream", "Pd-Stream", *stated) for stated in _STATED),
        _stated("pkg", "PKG", 1.0, 16, 1.15, ""),
        _stated("pkg", "PKG", 2.0, 128, 1.03, _LONG),
        _stated("dagreedy", "DAGreedy", 2.0, 128, 1.029, _LONG),
        _stated("w-choices", "W-Choices", 1.0, 16, 1.18, ""),
        Claim(
            "W-Choices rises from 1.18 with z = 1.0 and 16 workers to 7.97 with z = 2.0 and 128: "
            "beyond one per key",
            "section VI-E, read from the text; Fig. 10",
            functools.partial(
                _beyond_one, strategy="w-choices", stream=2.0, n_workers=128, note=_LONG
            ),
            7.97 - 1,
            "factor",
            above=0.18,
        ),
        Claim(
            "Pd-Stream splits less than W-Choices with strong skew and 128 workers: the ratio",
            "section VI-E, read from the text; Fig. 10",
            lambda results: (
                mean(results, "pd-stream", 2.0, 128, "replication", _LONG)
                / mean(results, "w-choices", 2.0, 128, "replication", _LONG)
            ),
            below=1.0,
        ),
        Claim(
            "DAGreedy splits less than PKG with mild skew: the ratio with z = 1.0",
            "section VI-E, read from the text; Fig. 10",
            lambda results: (
                sum(mean(results, "dagreedy", 1.0, n, "replication") for n in WORKERS)
                / sum(mean(results, "pkg", 1.0, n, "replication") for n in WORKERS)
            ),
            below=1.0,
        ),
    ],
    [
        Plot(
            "z",
            f"replication factor, {n} workers",
            functools.partial(
                lambda results, n: {
                    strategy: against_skew(results, strategy, n, "replication")
                    for strategy in STRATEGIES
                },
                n=n,
            ),
            {"pd-stream": [(z, published) for z, of, published, _ in _STATED if of == n]},
            log_y=True,
        )
        for n in WORKERS
    ],
    f"{SYNTHETIC_DATA} Replication depends on the length of the stream: most cells with a stated "
    "number are as long as published.",
    "Pd-Stream with z = 1.2 and 16 workers: nearly all replicas belong to keys that are never "
    "hot. The algorithm sends these to the lighter of two workers, which is either of them while "
    "loads are level. W-Choices: 7.97 needs some 240 keys that are hot. With the threshold of its "
    "authors, a fifth of a worker's load, fewer than 20 keys are hot. A threshold of 1/750 of a "
    "load gives the number, but it was fitted to it, and explains Figs. 4, 6 and 12 only in part. "
    "Shorter streams raise it as well, but not without Pd-Stream's (evidence); fewer places in "
    "the summary of W-Choices hardly matter. PKG and DAGreedy with z = 2.0: eight sources that do "
    "not know of each other split keys about twice as often as one; the published numbers are "
    "those of one source.",
    [
        *(
            Claim(
                f"{name} with one source, z = 2.0 and 128 workers: beyond one per key",
                "ours",
                functools.partial(
                    _beyond_one, strategy=strategy, stream=2.0, n_workers=128, note=_ONE_SOURCE
                ),
                published - 1,
                "value",
                above=0.0,
            )
            for strategy, name, published in (("pkg", "PKG", 1.03), ("dagreedy", "DAGreedy", 1.029))
        ),
        Claim(
            "Of Pd-Stream's replicas with z = 1.2 and 16 workers, cold keys have this part",
            "ours",
            functools.partial(_cold_part, stream=1.2),
            above=0.5,
        ),
        Claim(
            "W-Choices with a threshold fitted to this number, 1/750 of a worker's load: beyond "
            "one per key",
            "ours",
            functools.partial(
                _beyond_one, strategy="w-choices", stream=2.0, n_workers=128, note=_LOW_THRESHOLD
            ),
            7.97 - 1,
            "factor",
            above=1.0,
        ),
        Claim(
            "In a shorter stream Pd-Stream too has more replicas than published with z = 2.0 and "
            "128 workers: beyond one per key",
            "ours",
            functools.partial(_beyond_one, strategy="pd-stream", stream=2.0, n_workers=128),
            above=0.74,
        ),
        Claim(
            "W-Choices with a summary of 50 places, z = 2.0 and 128 workers: beyond one per key",
            "ours",
            functools.partial(
                _beyond_one, strategy="w-choices", stream=2.0, n_workers=128, note=_FEW_PLACES
            ),
            below=3.0,
        ),
    ],
)


def _real_cells(size: Size) -> Mapping[str, Cell]:
    return {
        **runs(size, STRATEGIES, REAL),
        **runs(size, ["cascade-ahead"], REAL, horizon=size.records),
        **_cold("HT", real(HT, size.records), size),
    }


_STATED_REAL = ((DS, 16, 1.24), (DS, 128, 1.30), (HT, 16, 1.02), (HT, 128, 1.12))

FIGURE_11 = Figure(
    "pd-stream",
    "11",
    "Replication factor on the streams of Table V, by number of workers",
    _real_cells,
    [
        *(
            Claim(
                f"Pd-Stream has a replication of {published} on {stream.name} with {n} workers: "
                "beyond one per key",
                "section VI-E, read from the text; Fig. 11",
                functools.partial(
                    _beyond_one, strategy="pd-stream", stream=stream.name, n_workers=n
                ),
                published - 1,
                "factor",
                below=1.0,
            )
            for stream, n, published in _STATED_REAL
        ),
        *(
            Claim(
                f"From 16 to 128 workers the replication on {stream.name} grows by only {share} %",
                "section VI-E, read from the text; Fig. 11",
                functools.partial(
                    lambda results, stream: (
                        mean(results, "pd-stream", stream.name, 128, "replication")
                        / mean(results, "pd-stream", stream.name, 16, "replication")
                    ),
                    stream=stream,
                ),
                1 + share / 100,
                "value",
                above=1.0,
            )
            for stream, share in ((DS, 4.8), (HT, 9.8))
        ),
        Claim(
            "Real streams have few hot keys, so Pd-Stream splits less than W-Choices with 128 "
            "workers: the larger of both ratios",
            "section VI-E; Fig. 11",
            lambda results: max(
                mean(results, "pd-stream", stream.name, 128, "replication")
                / mean(results, "w-choices", stream.name, 128, "replication")
                for stream in REAL
            ),
            below=1.0,
        ),
    ],
    [
        Plot(
            "workers",
            f"replication factor, {stream.name}",
            functools.partial(
                lambda results, stream: {
                    strategy: against_workers(results, strategy, stream.name, "replication")
                    for strategy in (*STRATEGIES, "cascade-ahead")
                },
                stream=stream,
            ),
            {"pd-stream": [(n, published) for of, n, published in _STATED_REAL if of is stream]},
        )
        for stream in REAL
    ],
    REAL_DATA,
    "HT with 16 workers: most replicas belong to keys that are never hot, which have two workers "
    "as with PKG. Fewer than those of PKG are not possible while loads are level.",
    [
        Claim(
            "Of Pd-Stream's replicas on HT with 16 workers, cold keys have this part",
            "ours",
            functools.partial(_cold_part, stream="HT"),
            above=0.5,
        ),
        Claim(
            "PKG, which has no hot keys, has more replicas on HT with 16 workers than 1.02",
            "ours",
            functools.partial(_beyond_one, strategy="pkg", stream="HT", n_workers=16),
            above=0.02,
        ),
    ],
)

FIGURES = (FIGURE_10, FIGURE_11)
