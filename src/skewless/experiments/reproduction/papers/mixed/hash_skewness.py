"""Figure 7: how uneven the loads of a hash are, by workers and by keys."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from skewless.experiments.reproduction.figure import (
    Cell,
    Claim,
    Figure,
    Plot,
    Points,
    Results,
    Size,
)
from skewless.experiments.reproduction.papers.mixed import defaults
from skewless.experiments.reproduction.papers.mixed.fitting import same_head
from skewless.experiments.reproduction.papers.mixed.grid import first, grid, last, xs
from skewless.experiments.reproduction.papers.mixed.planning import Planning
from skewless.experiments.tables import Row

_WORKERS = (5, 10, 20, 40)
_KEYS = (5_000, 10_000, 100_000, 1_000_000)
#: The most runs: the authors average over 5, and what one ring does says little.
_SEEDS = (1, 2, 3, 4, 5)


def _cells(size: Size) -> Mapping[str, Cell]:
    size = size._replace(seeds=_SEEDS)
    most_keys = defaults.n_keys(size, records_per_key=4)

    def hashed(curve: str, x: float, seed: int) -> Cell:
        by_workers = curve == "by workers"
        return Planning(
            "hash",
            {"ring": True},
            n_keys=most_keys if by_workers else int(x),
            z=same_head(defaults.Z, defaults.N_KEYS, most_keys) if by_workers else defaults.Z,
            f=0.0,
            n_workers=int(x) if by_workers else min(defaults.N_WORKERS, size.workers),
            state_windows=1,
            n_intervals=1,
            seed=seed,
        )

    workers = defaults.up_to(size.workers, _WORKERS)
    keys = defaults.up_to(most_keys, _KEYS)
    return (
        grid(size, ["by workers"], workers, hashed)
        | grid(size, ["by keys"], keys, hashed)
        | grid(
            size._replace(seeds=size.seeds[:1]),
            ["cascade"],
            workers,
            lambda _, x, seed: defaults.cascade(size, seed, f=0.0, n_workers=int(x)),
        )
    )


def spread(row: Row) -> float:
    """Return the largest load over the smallest one."""
    loads = row["average_loads"]
    return float(max(loads) / min(loads))


def _distribution(results: Results) -> dict[str, Points]:
    """Return the share of workers (y) whose load is at most x times the mean."""
    curves: dict[str, Points] = {}
    for curve, name in (("by workers", "workers"), ("by keys", "keys")):
        for x in xs(results, curve):
            label = f"{curve} | {x:g} | seed 1"
            loads = np.sort(results[label]["average_loads"])
            shares = (np.arange(loads.size) + 1) / loads.size
            curves[f"{x:g} {name}"] = list(zip(loads.tolist(), shares.tolist(), strict=True))
    for x in xs(results, "cascade"):
        loads = np.sort(results[f"cascade | {x:g} | seed 1"]["loads"])
        shares = (np.arange(loads.size) + 1) / loads.size
        relative = (loads / loads.mean()).tolist()
        curves[f"cascade, {x:g} workers"] = list(zip(relative, shares.tolist(), strict=True))
    return curves


FIGURE_7 = Figure(
    "mixed",
    "7",
    "Loads under a hash, by the number of workers and by the number of keys",
    _cells,
    claims=[
        Claim(
            "Skewness grows with the number of workers.",
            "section V, load skewness, fig. 7a",
            lambda r: last(r, "by workers", spread) / first(r, "by workers", spread),
            above=1.0,
        ),
        Claim(
            "With 40 workers the largest load is almost 2.5 times the smallest.",
            "section V, load skewness, fig. 7a (read from the text)",
            lambda r: last(r, "by workers", spread),
            2.5,
            "value",
            above=1.0,
        ),
        Claim(
            "With 5,000 keys the largest load is around 4 times the smallest.",
            "section V, load skewness, fig. 7b (read from the text)",
            lambda r: first(r, "by keys", spread),
            4.0,
            "factor",
            above=1.0,
        ),
        Claim(
            "More keys give more even loads.",
            "section V, load skewness, fig. 7b",
            lambda r: last(r, "by keys", spread) / first(r, "by keys", spread),
            below=1.0,
        ),
    ],
    plots=[Plot("load / mean load", "share of workers", _distribution)],
    data="Zipf, z = 0.85, expected loads on a ring of 128 points per worker. The average over "
    "fluctuating intervals would be even whatever the hash does, so f = 0. By workers: a million "
    "keys, or fewer with z such that the hottest key keeps its share.",
)
